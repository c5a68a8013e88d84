"""One question to a person, ready to be read and answered on any page (spec: 04 sections 1-2).

Reads only. Who may answer is decided again by `boards.people`, inside the write; what stands here shows or hides a
form. Drafts and prompts are other people's text: nothing here makes markup of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from boards import policy
from boards.models import FlowRun, FlowStep, Hold, Member, Role, Session, Task, Visit
from boards.queries.ask_votes import vote_words
from boards.queries.drafts import DraftView, draft_view
from boards.queries.partitions import own_rows
from boards.queries.schema_fields import Field, fields_of
from boards.queries.silence import IfNobody, if_nobody, option_label
from boards.states import HoldKind, HoldState

_HEADING: Final = 200
_NOES: Final = frozenset({"no", "reject", "request_changes", "discard"})

# Of each the one that is shown is put into the reader's language.
_ASKS: Final[Mapping[str, Promise]] = {
    HoldKind.QUESTION: gettext_lazy("asks a question"),
    HoldKind.CONFIRM: gettext_lazy("asks for a yes or a no"),
    HoldKind.APPROVAL: gettext_lazy("asks for approval"),
    HoldKind.REVIEW: gettext_lazy("asks for a review"),
    HoldKind.INPUT: gettext_lazy("asks for input"),
    HoldKind.GATE: gettext_lazy("wants to send this and needs a yes"),
}
_PAIRS: Final[Mapping[str, Sequence[tuple[str, Promise, str, str]]]] = {
    HoldKind.CONFIRM: (("yes", gettext_lazy("Yes"), "yes", "a"), ("no", gettext_lazy("No"), "no", "r")),
    HoldKind.APPROVAL: (
        ("approve", gettext_lazy("Approve"), "yes", "a"),
        ("reject", gettext_lazy("Reject"), "no", "r"),
    ),
    HoldKind.REVIEW: (
        ("approve", gettext_lazy("Approve"), "yes", "a"),
        ("request_changes", gettext_lazy("Request changes"), "no", "r"),
    ),
    HoldKind.GATE: (("send", gettext_lazy("Send"), "yes", "a"), ("discard", gettext_lazy("Discard"), "no", "r")),
}
_DID: Final = {
    "approve": gettext_lazy("%(who)s approved"),
    "reject": gettext_lazy("%(who)s rejected"),
    "request_changes": gettext_lazy("%(who)s asked for changes"),
    "send": gettext_lazy("%(who)s sent it"),
    "discard": gettext_lazy("%(who)s discarded it"),
}
_SAID: Final = {"yes": gettext_lazy("%(who)s said yes"), "no": gettext_lazy("%(who)s said no")}


@dataclass(frozen=True, slots=True)
class Choice:
    """`style`: "yes" is the filled button, "no" the outlined one; `key`: the key that presses it, or ""."""

    value: str
    label: str
    description: str = ""
    style: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class AskView:
    """A hold with everything its template needs. `may_answer` is false for a viewer and for somebody else's hold."""

    hold: Hold
    heading: str
    asks: str
    by_person: bool
    kind_label: str
    choices: tuple[Choice, ...]
    fields: tuple[Field, ...]
    draft: DraftView | None
    silence: IfNobody
    may_answer: bool
    whose: str
    is_mine: bool
    run: FlowRun | None = None
    step_name: str = ""
    closed: str = ""
    note: str = ""
    may_undo: bool = False  # the reader's own answer, while it settles
    sender: str = ""  # of a gate draft: who sends it on a yes, as a sentence
    votes: str = ""  # of a question that several persons decide
    form_key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def deciders(self) -> list[tuple[str, str]]:
        return deciders(self.hold)

    @property
    def is_open(self) -> bool:
        return self.hold.state == HoldState.OPEN

    @property
    def subject(self) -> str:
        """The run, else the task, that it waits for."""
        return self.run.name if self.run else self.hold.task.label if self.hold.task else ""

    @property
    def mark(self) -> str:
        """The icon of what it came to: a yes or an answer, a no, the due time, or nothing."""
        if self.hold.state == HoldState.ANSWERED:
            choice = str((self.hold.answer or {}).get("choice", ""))
            return "x" if self.hold.kind != HoldKind.QUESTION and choice in _NOES else "ok"
        return "clock" if self.hold.state == HoldState.EXPIRED else "x"

    @property
    def row_key(self) -> str:
        """The key of its row in the list."""
        return f"hold-{self.hold.pk}"

    @property
    def body(self) -> str:
        """The prompt, where the heading does not say all of it."""
        return "" if self.heading == self.hold.prompt.strip() else self.hold.prompt

    @property
    def took(self) -> float:
        """Seconds from the question to its end; 0 while it is open."""
        return (self.hold.answered_at - self.hold.asked_at).total_seconds() if self.hold.answered_at else 0


def asks_for(member: Member, *, task: Task | None = None, run: FlowRun | None = None) -> list[AskView]:
    """The holds of a task, or of a run with its tasks: open ones first, due soonest, then the closed, newest first.

    A closed one of a task comes without its draft, which stands on its own page.
    """
    holds = _of_task(member, task) if task else list(_holds(member).filter(_of_run(run)))
    open_ = sorted((h for h in holds if h.state == HoldState.OPEN), key=_by_due)
    closed = sorted((h for h in holds if h.state != HoldState.OPEN), key=lambda h: h.answered_at or h.asked_at)
    ordered = [*open_, *reversed(closed)]
    steps = step_names(found for hold in holds if (found := run_of(hold)))
    return [_view(hold, member, steps, whole=task is None or hold.state == HoldState.OPEN) for hold in ordered]


def _of_run(run: FlowRun | None) -> Q:
    return Q(visit__run=run) | Q(task__visit__run=run)


def _of_task(member: Member, task: Task) -> list[Hold]:
    """All have the one task that was read: joined to each it would come, whatever it weighs, as often as it asked."""
    rows = _holds(member).select_related(None).select_related(*_BESIDE).filter(task=task)
    holds = list(rows)
    for hold in holds:
        hold.task = task
    return holds


def ask(member: Member, hold_id: int) -> AskView | None:
    """One hold of the member's space, or None, as for what does not exist."""
    found = _holds(member).filter(pk=hold_id).first()
    return view_all([found], member)[0] if found else None


def view_holds(member: Member, hold_ids: Sequence[int]) -> list[AskView]:
    """Open holds of the member's space by their ids, in the order of the ids."""
    found = _holds(member).filter(state=HoldState.OPEN).in_bulk(list(hold_ids))
    return view_all([found[pk] for pk in hold_ids if pk in found], member)


def view_all(holds: Sequence[Hold], member: Member) -> list[AskView]:
    steps = step_names(run for hold in holds if (run := run_of(hold)))
    return [_view(hold, member, steps) for hold in holds]


def step_names(runs: Iterable[FlowRun]) -> dict[tuple[int, str], str]:
    """(version id, step key) -> the step's name, in one query; empty without runs."""
    versions = {run.version_id for run in runs}
    rows = FlowStep.objects.filter(version__in=versions).values_list("version_id", "key", "name") if versions else ()
    return {(version, key): name for version, key, name in rows}


def run_of(hold: Hold) -> FlowRun | None:
    visit = visit_of(hold)
    return visit.run if visit else None


def visit_of(hold: Hold) -> Visit | None:
    return hold.visit or (hold.task.visit if hold.task else None)


def may_answer(member: Member, hold: Hold) -> bool:
    """Whether the member's role and the hold's assignee let the member decide it."""
    return member.role in policy.ROLE_ACTIONS["holds.answer"] and is_for(member, hold.assignee_id, hold.assignee_role)


def is_for(member: Member, assignee_id: int | None, role: str) -> bool:
    """Whether a hold with that assignee (a user id, a role, or nobody) waits on this member."""
    if assignee_id is not None:
        return assignee_id == member.user_id
    return not role or role == member.role


def choices_of(kind: str, options: Any) -> tuple[Choice, ...]:
    """What can be chosen, in the order shown. A question has its author's options; the others have their own two."""
    if kind == HoldKind.QUESTION:
        rows = [row for row in options if isinstance(row, dict)] if isinstance(options, list) else []
        return tuple(_option(row, number) for number, row in enumerate(rows, start=1))
    return tuple(Choice(value, str(label), style=style, key=key) for value, label, style, key in _PAIRS.get(kind, ()))


def asks_words(kind: str) -> str:
    """What follows the asker's name at the head of a question: "shell" … "wants to send this and needs your yes"."""
    return str(_ASKS[kind]) if kind in _ASKS else _("asks")


def answer_words(hold: Hold, reader: int | None = None) -> str:
    """What a closed hold came to, without its time and note: "Anna Berg approved"; `reader` is called "You"."""
    is_reader = reader is not None and hold.answered_by_id == reader
    who = _("You") if is_reader else hold.answered_by_name or _("Somebody")
    choice = str((hold.answer or {}).get("choice", ""))
    if hold.state == HoldState.DISCARDED:
        return hold.closed_reason or _("Discarded: nobody needs the answer any more.")
    if hold.state == HoldState.EXPIRED:
        return _expired_words(hold, choice)
    words = _SAID if hold.kind == HoldKind.CONFIRM else _DID
    if hold.kind in {HoldKind.QUESTION, HoldKind.INPUT} or choice not in words:
        label = option_label(hold.options, choice)
        return (
            _("%(who)s answered “%(label)s”") % {"who": who, "label": label}
            if label
            else _("%(who)s answered") % {"who": who}
        )
    return str(words[choice]) % {"who": who}


def _expired_words(hold: Hold, choice: str) -> str:
    if hold.closed_reason:
        return hold.closed_reason
    if choice and hold.default:
        return _("By deadline: the answer is “%(label)s”") % {"label": option_label(hold.options, choice)}
    if hold.kind in {HoldKind.APPROVAL, HoldKind.GATE}:
        return _("By deadline: it reads as a no")
    return _("By deadline: nobody answered")


_BESIDE: Final = ("board", "visit__run__flow", "assignee", "asker_session", "answered_by")


def _holds(member: Member) -> QuerySet[Hold]:
    settling = ExpressionWrapper(
        Q(settles_at__isnull=False, settles_at__gt=Now(), read_at=None), output_field=BooleanField()
    )
    # Of partitioned boards one's own rows only; operators look into any.
    seen = Q() if member.role == Role.OPERATOR else Q(task=None) | own_rows(member, "task__partition")
    holds = Hold.objects.filter(seen, board__space_id=member.space_id).annotate(is_settling=settling)
    return holds.select_related("task__visit__run__flow", *_BESIDE)


def sender_words(hold: Hold) -> str:
    """Who sends a gate draft on a yes, or that it went out already."""
    if hold.kind != HoldKind.GATE:
        return ""
    host = urlsplit(hold.outlet).netloc.rpartition("@")[2] if hold.outlet else ""
    if hold.delivered_at:
        return _("Orchestra sent it to %(host)s.") % {"host": host}
    if hold.outlet:
        return _("On a yes Orchestra sends exactly this to %(host)s.") % {"host": host}
    return _("On a yes %(who)s gets exactly this back and sends it.") % {"who": hold.asker}


def _by_due(hold: Hold) -> tuple[bool, datetime, int]:
    at = if_nobody(hold).at
    return (at is None, at or hold.asked_at, hold.pk)


def _view(hold: Hold, member: Member, steps: dict[tuple[int, str], str], *, whole: bool = True) -> AskView:
    visit = visit_of(hold)
    run = visit.run if visit else None
    answer = hold.answer if isinstance(hold.answer, dict) else {}
    return AskView(
        hold=hold,
        heading=heading_of(hold),
        asks=asks_words(hold.kind),
        by_person=_by_person(hold),
        kind_label=HoldKind(hold.kind).label,
        choices=choices_of(hold.kind, hold.options),
        fields=fields_of(hold.schema) if hold.kind == HoldKind.INPUT else (),
        draft=_shown(hold) if whole else None,
        silence=if_nobody(hold),
        may_answer=hold.state == HoldState.OPEN and may_answer(member, hold),
        whose=whose_words(member, hold.assignee.display if hold.assignee else "", hold.assignee_id, hold.assignee_role),
        is_mine=is_for(member, hold.assignee_id, hold.assignee_role),
        run=run,
        step_name=steps.get((run.version_id, visit.step_key), visit.step_key) if run and visit else "",
        closed="" if hold.state == HoldState.OPEN else answer_words(hold),
        note=str(answer.get("text", "")),
        may_undo=bool(getattr(hold, "is_settling", False)) and hold.answered_by_id == member.user_id,
        sender=sender_words(hold),
        votes=vote_words(hold),
    )


def _shown(hold: Hold) -> DraftView | None:
    """The draft; of a review that came with none what its attempt has made so far."""
    if hold.draft is not None:
        return draft_view(hold.draft, hold.draft_hash)
    if hold.kind == HoldKind.REVIEW and hold.task and hold.task.output is not None:
        return draft_view(hold.task.output)
    return None


def deciders(hold: Hold) -> list[tuple[str, str]]:
    """(value, name) of those to whom a question can be handed on: the people of its board's roster, and the roles."""
    entries = hold.board.roster.filter(kind="person").select_related("user").order_by("position", "name")
    named = [(entry.name, entry.user.display) for entry in entries if entry.user and entry.user_id != hold.assignee_id]
    return [*named, (Role.OPERATOR, _("any operator")), ("", _("whoever may decide"))]


def whose_words(member: Member, name: str, assignee_id: int | None, role: str) -> str:
    """Whom it waits on, as the head says it: "you", "Anna Berg", "an operator", or "" for whoever may decide."""
    if assignee_id is not None:
        return _("you") if assignee_id == member.user_id else name
    if role:
        return {"operator": _("an operator"), "member": _("a member")}.get(role, role)
    return ""


def heading_of(hold: Hold) -> str:
    """The title, else the prompt where it is short, else its first line."""
    prompt = hold.prompt.strip()
    if hold.title or (len(prompt) <= _HEADING and "\n" not in prompt):
        return hold.title or prompt
    first = next((line.strip(" #*") for line in prompt.splitlines() if line.strip(" #*")), prompt)
    return first if len(first) <= _HEADING else f"{first[:_HEADING]}…"


def _by_person(hold: Hold) -> bool:
    return hold.asker_session is not None and hold.asker_session.kind == Session.Kind.MEMBER


def _option(row: dict[str, Any], number: int) -> Choice:
    value = str(row.get("value") or row.get("label") or "")
    return Choice(
        value,
        str(row.get("label") or value),
        str(row.get("description") or ""),
        key=str(number) if number < 10 else "",
    )

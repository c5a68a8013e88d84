"""What a row of *Needs you* says and which acts it carries (spec: 04 section 3).

Pure: a light row of `boards.queries.waiting_rows` in, a `Row` out. An act is a verb of the engine, posted to the
task or run it stands beside; what may really be done is decided there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from boards.debts.operating import SEEN_ONLY
from boards.models import Member, Role, Session
from boards.queries.asks import is_for, whose_words
from boards.queries.cards import task_dom_id
from boards.queries.read_rows import ONLY_READ
from boards.queries.silence import Asked, IfNobody, option_label, silence
from boards.queries.waiting_row import NOTHING_DUE, Row, RowAct
from boards.states import HoldKind, Phase, RunStatus, Status

GROUP_OF: Final[Mapping[str, str]] = {
    HoldKind.QUESTION: "question",
    HoldKind.CONFIRM: "question",
    HoldKind.APPROVAL: "approval",
    HoldKind.REVIEW: "approval",
    HoldKind.INPUT: "input",
    HoldKind.GATE: "gate",
}


def hold_row(it: Mapping[str, Any], member: Member) -> Row:
    label = option_label(it["options"], it["default"])
    asked = Asked(it["kind"], it["due_at"], label, it["visit_id"] is not None, it["visit_due_at"])
    name = f"{it['assignee__first_name'] or ''} {it['assignee__last_name'] or ''}".strip() or it["assignee__username"]
    whose = whose_words(member, name or "", it["assignee_id"], it["assignee_role"])
    return Row(
        key=f"hold-{it['pk']}",
        rev=it["revision"],
        group=GROUP_OF[it["kind"]],
        title=it["title"] or it["asks"],
        words=_hold_words(it, whose),
        who=it["asker"],
        by_person=it["asker_session__kind"] == Session.Kind.MEMBER,
        since=it["asked_at"],
        mine=it["mine"],
        for_role=bool(it["assignee_role"]) and is_for(member, None, it["assignee_role"]),
        board_id=it["board_id"],
        board_slug=it["board__slug"],
        board_name=it["board__name"],
        subject=it["run_name"] or name_of(it["task__title"], it["goal"]),
        silence=silence(asked),
        priority=it["task__priority"] or it["run_priority"] or 0,
        task_id=it["task__public_id"] or "",
        flow_key=it["flow_key"] or "",
        run_number=it["run_number"] or 0,
        version_id=it["run_version"] or 0,
        step_key=it["step_key"] or "",
        hold_id=it["pk"],
        hold_kind=it["kind"],
        options=it["options"],
        reads_first=it["reads_first"],
        whose=whose,
    )


def task_row(it: Mapping[str, Any], member: Member) -> Row:
    words, since, acts, tone = _TASK_ARMS[it["arm"]](it)
    return Row(
        key=f"row-{task_dom_id(it['board_id'], it['public_id'], it['partition'])}",
        rev=it["revision"],
        group=it["arm"],
        title=name_of(it["title"], it["short_goal"]),
        words=words,
        who=it["filed_by"] if it["arm"] == "assigned" else it["assignee"],
        by_person=it["arm"] == "assigned" and it["filer_kind"] == Session.Kind.MEMBER,
        since=since or it["updated_at"],
        mine=it["mine"],
        board_id=it["board_id"],
        board_slug=it["board__slug"],
        board_name=it["board__name"],
        silence=IfNobody(it["due_at"], "", "") if it["due_at"] else NOTHING_DUE,
        priority=it["priority"],
        why=it["why"] if it["arm"] == "stuck" else "",
        tone=tone,
        task_id=it["public_id"],
        task_key=it["pk"],
        acts=acts if it["mine"] and (it["arm"] != "lost" or member.role == Role.OPERATOR) else (_OPEN,),
    )


def run_row(it: Mapping[str, Any], member: Member) -> Row:
    failed = it["status"] == RunStatus.FAILED
    since = it["completed_at"] if failed else it["current_visit__task__updated_at"] or it["current_visit__entered_at"]
    return Row(
        key=f"run-{it['pk']}",
        rev=it["revision"],
        group="flow",
        title=it["name"],
        words=_run_words(it),
        who=it["current_visit__task__assignee"] or "",
        by_person=False,
        since=since or it["created_at"],
        mine=it["mine"],
        board_id=it["flow__board_id"],
        board_slug=it["flow__board__slug"],
        board_name=it["flow__board__name"],
        priority=it["priority"],
        why=it["why"] or (it["current_visit__error"] or "" if failed else ""),
        tone="stuck" if failed else "",
        flow_key=it["flow__key"],
        run_id=it["pk"],
        run_number=it["number"],
        version_id=it["version_id"],
        step_key=it["current_visit__step_key"] or "",
        acts=run_acts(failed) if it["mine"] else (_OPEN,),
    )


def run_acts(failed: bool) -> tuple[RowAct, ...]:
    """What may be done in the list with a run that failed, or with one that nothing moves on."""
    again = RowAct("run_again", _("Run step again"), "run", not failed)
    if not failed:
        return RowAct("mark_complete", _("Mark complete and advance"), "run"), again
    return RowAct("", _("Start again…"), "open"), again, RowAct("cancel_run", _("Cancel run"), "run", True)


def debt_row(it: Mapping[str, Any]) -> Row:
    of_task = it["task__public_id"] is not None
    prefix = "task__board" if of_task else "run__flow__board"
    subject = name_of(it["task__title"], it["goal"]) if of_task else it["run__name"]
    return Row(
        key=f"debt-{it['pk']}",
        rev=it["tries"],
        group=debt_group(it["kind"]),
        blocks=it["kind"] not in ONLY_READ,
        title=_debt_title(it["kind"], subject),
        words=_debt_words(it),
        who="",
        by_person=False,
        since=it["created_at"],
        mine=True,
        board_id=it[f"{prefix}_id"],
        board_slug=it[f"{prefix}__slug"],
        board_name=it[f"{prefix}__name"],
        why=it["why"],
        task_id=it["task__public_id"] or "",
        flow_key=it["run__flow__key"] or "",
        run_number=it["run__number"] or 0,
        debt_id=it["pk"],
        acts=_debt_acts(it["kind"]) if it["state"] == "undeliverable" else (_OPEN,),
    )


def debt_group(kind: str) -> str:
    return "record" if kind in SEEN_ONLY else "notice" if kind == "notice" else "debt"


def _debt_words(it: Mapping[str, Any]) -> str:
    if it["kind"] in SEEN_ONLY:
        return _("Nothing waits for it, and nothing can be tried again")
    return ngettext("tried %(count)d time", "tried %(count)d times", it["tries"]) % {"count": it["tries"]}


def _debt_acts(kind: str) -> tuple[RowAct, ...]:
    """What failed for good can be tried again or dropped; a stop is never dropped."""
    retry, drop = RowAct("retry", _("Retry"), "debt"), RowAct("drop", _("Drop"), "debt", True)
    if kind in SEEN_ONLY:
        return (RowAct("drop", _("Mark as seen"), "debt"), RowAct("", _("Open"), "open", True))
    return (retry, _OPEN) if kind == "session_stop" else (retry, drop, RowAct("", _("Open"), "open", True))


_OPEN: Final = RowAct("", "", "open")


def name_of(title: str | None, goal: str | None) -> str:
    return title or next((line.strip() for line in (goal or "").splitlines() if line.strip()), "")


def _hold_words(it: Mapping[str, Any], whose: str) -> str:
    words = str(HoldKind(it["kind"]).label)
    properties = it["schema"].get("properties") if isinstance(it["schema"], dict) else None
    if it["kind"] == HoldKind.INPUT and isinstance(properties, dict):
        count = len(properties)
        words = ngettext("Input, %(count)d field", "Input, %(count)d fields", count) % {"count": count}
    return _("%(kind)s for %(whose)s") % {"kind": words, "whose": whose} if whose else words


_TaskWords = tuple[str, datetime | None, tuple[RowAct, ...], str]


def _check(it: Mapping[str, Any]) -> _TaskWords:
    words = _("Handed in, attempt %(number)d; a person checks it") % {"number": it["attempts"]}
    return words, it["updated_at"], (RowAct("", _("See the result"), "open"),), "check"


def _assigned(it: Mapping[str, Any]) -> _TaskWords:
    if it["status"] == Status.IN_PROGRESS:
        acts = (RowAct("", _("Hand in…"), "open"), RowAct("hand_back", _("Give back"), "task", True))
        words = _("Assigned to you, started") if it["mine"] else _("Assigned to %(name)s, started")
        return words % {"name": it["assignee"]}, it["started_at"], acts, ""
    acts = (RowAct("claim", _("Start"), "task"), RowAct("", _("Open"), "open", True))
    words = _("Assigned to you") if it["mine"] else _("Assigned to %(name)s")
    return words % {"name": it["assignee"]}, it["created_at"], acts, ""


def _stuck(it: Mapping[str, Any]) -> _TaskWords:
    tries = it["failures"]  # none where its workers were lost, which is no failure of its own
    words = ngettext("Stuck after %(count)d try", "Stuck after %(count)d tries", tries) % {"count": tries}
    words = words if tries else _("Stuck: its worker was lost")
    acts = (RowAct("retry", _("Retry"), "task"), RowAct("", _("Skip…"), "open"))
    return words, it["completed_at"], acts, "stuck"


def _lost(it: Mapping[str, Any]) -> _TaskWords:
    acts = (RowAct("reclaim", _("Reclaim"), "task"), RowAct("", _("Open"), "open", True))
    return _("Says Working, but its lease ran out"), it["lease_until"], acts, ""


_TASK_ARMS: Final = {"check": _check, "assigned": _assigned, "stuck": _stuck, "lost": _lost}


def _run_words(it: Mapping[str, Any]) -> str:
    if it["status"] == RunStatus.FAILED:
        return _("The run failed")
    if it["current_visit__phase"] == Phase.PAUSED:
        return _("The turn was cancelled, so the step waits")
    return _("The turn ended and nothing moves the run on")


def _debt_title(kind: str, subject: str) -> str:
    words = {
        "session_stop": _("“%(subject)s” is still being stopped"),
        "notice": _("How “%(subject)s” ended could not be told"),
        "resume": _("“%(subject)s” could not be taken up again"),
        "flow_advance": _("“%(subject)s” could not move the run on"),
        "children_cancel": _("The tasks that “%(subject)s” filed could not be cancelled"),
        "lend_end": _("What the worker of “%(subject)s” was lent could not be ended"),
        "flow_failure_steps": _("The due time of “%(subject)s” passed, but its step could not be failed"),
        "child_runs_cancel": _("The runs that “%(subject)s” had called could not be cancelled"),
        "holds_discard": _("What “%(subject)s” still asks could not be discarded"),
        "record_ending": _("How “%(subject)s” ended could not be taken down by the board's own code"),
        "recorder_failure": _("The result of “%(subject)s” could not be recorded in the ordinary way"),
        "recount": _("A counter of “%(subject)s” differs from a recount"),
        "deliver_gate": _("What “%(subject)s” may send could not be sent"),
        "late_check": _("The check of “%(subject)s” could not be handed over"),
        "deliver": _("Nobody could be told of “%(subject)s”"),
        "settle_parent": _("“%(subject)s” waits for tasks that it filed, and could not be looked at again"),
        "cascade": _("What depends on “%(subject)s” could not be settled"),
    }
    return words.get(kind, _("“%(subject)s” still owes: %(kind)s")) % {
        "subject": subject,
        "kind": kind.replace("_", " "),
    }

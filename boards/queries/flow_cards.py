"""One run as a card of its flow's board: all that `flow/_run_card.html` shows, whoever reads it. Reads only.

A `RunCard` can be compared and hashed: equal ones are rendered once per process, and nothing in it depends on the
reader. Six queries for any number of cards. A card with several tasks shows the first of: on you, stuck, working,
waiting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from boards.models import Debt, Flow, FlowRun, FlowStep, Hold, RosterEntry, Task
from boards.queries.cards import NOTE_LENGTH, Ask
from boards.states import LIVE, HoldState, Phase, RunStatus, Status

_ENDED: Final = {RunStatus.COMPLETED: "done", RunStatus.CANCELLED: "skipped", RunStatus.FAILED: "stuck"}


@dataclass(frozen=True, slots=True)
class RunCard:
    """`state`: you, stuck, working, ready, waiting, paused, stopping, queued, done or skipped.

    `place`: its number in the line, 0 where it is in; `since`: since when it stands like that.
    """

    key: int
    number: int
    flow: str
    name: str
    column: str
    state: str
    since: datetime
    note: str = ""
    error: str = ""
    who: str = ""
    person: str = ""
    ask: Ask | None = None
    due_at: datetime | None = None
    place: int = 0
    archived: bool = False
    visit: int = 0
    about: str = ""  # what its first input says, where that is a text

    @property
    def is_over(self) -> bool:
        return self.archived or self.state in ("done", "skipped")


@dataclass(frozen=True, slots=True)
class _Known:
    """What is read once for all cards."""

    tasks: Mapping[int, Sequence[Task]]  # by visit
    holds: Mapping[int, Sequence[Hold]]  # by run
    stopping: frozenset[int]  # visits
    people: Mapping[str, str]  # roster name -> the person's name
    users: Mapping[str, int]
    steps: Mapping[tuple[int, str], str]  # version and key -> name
    lines: Mapping[int, int]  # run -> its number in the line that it stands in


# The first input in its author's order: a card has to say what it is about, and runs are often named by number alone.
_ABOUT: Final = RawSQL(
    """(select left(boards_flowrun.inputs ->> first.name, 160)
          from boards_flowversion v cross join lateral (select v.settings -> 'inputs_order' ->> 0 as name) first
         where v.id = boards_flowrun.version_id and jsonb_typeof(boards_flowrun.inputs -> first.name) = 'string')""",
    [],
)


def read_run_cards(flow: Flow, keys: Iterable[int], lines: Mapping[str, Sequence[int]]) -> list[RunCard]:
    """The cards of these runs, in any order. `lines`: step -> the runs that wait for it, the first in line first."""
    found = FlowRun.objects.filter(pk__in=list(keys)).defer("inputs", "data", "signal").annotate(about=_ABOUT)
    runs = list(found.select_related("current_visit"))
    known = _known(flow, runs, lines)
    return [_card(flow, run, known) for run in runs]


def _known(flow: Flow, runs: Sequence[FlowRun], lines: Mapping[str, Sequence[int]]) -> _Known:
    live = [run.current_visit_id for run in runs if run.status in (RunStatus.ACTIVE, RunStatus.FAILED)]
    visits = [visit for visit in live if visit]
    tasks: dict[int, list[Task]] = defaultdict(list)
    fields = ("visit_id", "status", "assignee", "checker", "status_note", "error", "due_at", "unmet_deps", "attempts")
    for task in Task.objects.filter(visit__in=visits).only(*fields).order_by("pk"):
        tasks[task.visit_id or 0].append(task)
    holds: dict[int, list[Hold]] = defaultdict(list)
    for hold in _open_holds(visits):
        holds[hold.about].append(hold)  # type: ignore[attr-defined]
    stops = Debt.objects.filter(kind="session_stop", state=Debt.State.OWED, task__visit__in=visits)
    people = RosterEntry.objects.filter(board=flow.board_id, kind=RosterEntry.Kind.PERSON).select_related("user")
    entries = {entry.name: entry.user for entry in people if entry.user}
    steps = FlowStep.objects.filter(version__in={run.version_id for run in runs})
    return _Known(
        tasks=tasks,
        holds=holds,
        stopping=frozenset(stops.values_list("task__visit", flat=True)),
        people={name: user.display for name, user in entries.items()},
        users={name: user.pk for name, user in entries.items()},
        steps={(version, key): name for version, key, name in steps.values_list("version_id", "key", "name")},
        lines={run: n for line in lines.values() for n, run in enumerate(line, start=1)},
    )


def _open_holds(visits: Sequence[int]) -> list[Hold]:
    """Open questions of these stays and of their tasks, each with the stay that it is `about`."""
    rows = Hold.objects.filter(Q(visit__in=visits) | Q(task__visit__in=visits), state=HoldState.OPEN)
    fields = ("kind", "title", "prompt", "due_at", "assignee", "assignee_role")
    return list(
        rows.annotate(about=Coalesce("visit", "task__visit"))
        .select_related("assignee")
        .only(*fields, "assignee__first_name", "assignee__last_name", "assignee__username")
        .order_by("pk")
    )


def _card(flow: Flow, run: FlowRun, known: _Known) -> RunCard:
    visit = run.current_visit
    tasks = known.tasks.get(visit.pk, ()) if visit else ()
    ask = _ask(known, known.holds.get(visit.pk, ()) if visit else (), tasks) if run.status == RunStatus.ACTIVE else None
    state = _state(run, known, tasks, ask)
    task = _telling(tasks, state)
    who = task.assignee if task is not None and state not in ("waiting", "paused", "done", "skipped") else ""
    due = visit.due_at if visit and visit.left_at is None and run.status == RunStatus.ACTIVE else None
    return RunCard(
        key=run.pk,
        number=run.number,
        flow=flow.key,
        name=run.name,
        column=run.queued_step or run.step_key,
        state=state,
        since=run.queued_at or run.stands_since,
        note=_note(run, known, state, task),
        error=_line(run.error) if run.status == RunStatus.FAILED else "",
        who=who,
        person=known.people.get(who, ""),
        ask=ask,
        due_at=None if ask and ask.due_at else due,
        place=known.lines.get(run.pk, 0),
        archived=run.archived_at is not None,
        visit=run.current_visit_id or 0,
        about=_line(run.about or ""),  # type: ignore[attr-defined]
    )


def _state(run: FlowRun, known: _Known, tasks: Sequence[Task], ask: Ask | None) -> str:
    """The first of: on you, stuck, working, waiting."""
    if ended := _ENDED.get(RunStatus(run.status)):
        return ended
    if run.queued_step:
        return "queued"
    statuses = {task.status for task in tasks}
    if run.current_visit_id in known.stopping and statuses.isdisjoint(LIVE):
        return "stopping"  # nothing works any more, and something is still being stopped
    if ask is not None:
        return "you"
    if Status.ERRORED in statuses and not statuses.isdisjoint({Status.PENDING, Status.IN_PROGRESS, Status.NEEDS_CHECK}):
        return "stuck"
    if not statuses.isdisjoint({Status.IN_PROGRESS, Status.NEEDS_CHECK}):
        return "working"
    if not statuses.isdisjoint({Status.PENDING, Status.HELD}):
        return "ready"
    visit = run.current_visit
    return "paused" if visit is not None and visit.phase == Phase.PAUSED else "waiting"


def _telling(tasks: Sequence[Task], state: str) -> Task | None:
    """The task that the card speaks of."""
    wanted = {
        "working": (Status.IN_PROGRESS, Status.NEEDS_CHECK),
        "ready": (Status.PENDING, Status.HELD),
        "stuck": (Status.ERRORED,),
        "you": (Status.NEEDS_CHECK, Status.IN_PROGRESS, Status.PENDING),
    }.get(state, ())
    return next((task for status in wanted for task in tasks if task.status == status), tasks[-1] if tasks else None)


def _note(run: FlowRun, known: _Known, state: str, task: Task | None) -> str:
    if state == "working" and task is not None:
        return _line(task.status_note)
    if state == "skipped":
        words = _line(run.error)
        step = known.steps.get((run.version_id, run.step_key), "")
        return words if not step else _("In %(step)s: %(why)s") % {"step": step, "why": words}
    return ""


def _ask(known: _Known, holds: Sequence[Hold], tasks: Sequence[Task]) -> Ask | None:
    """The one thing that the card asks of a person now: an open question, a check, or work for a person."""
    if holds:
        hold = holds[0]
        you, name = ("role:" + hold.assignee_role, hold.assignee_role) if hold.assignee_role else ("any", "")
        if hold.assignee is not None:
            you, name = str(hold.assignee_id), hold.assignee.display
        return Ask(_line(hold.title) or _line(hold.prompt), you, hold.kind, hold.due_at, name, len(holds) - 1)
    for task in tasks:
        name = task.checker if task.status == Status.NEEDS_CHECK else task.assignee
        if task.status == Status.NEEDS_CHECK and name == "person":
            return Ask("", "any", "check")
        if name in known.users and task.status == Status.NEEDS_CHECK:
            return Ask("", str(known.users[name]), "check", name=known.people[name])
        if name in known.users and task.status in (Status.PENDING, Status.IN_PROGRESS) and not task.unmet_deps:
            kind = "start" if task.status == Status.PENDING else "hand_in"
            return Ask("", str(known.users[name]), kind, name=known.people[name])
    return None


def _line(text: str) -> str:
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")[:NOTE_LENGTH]

"""One flow run with all that its page shows, in a number of queries that no history makes larger (spec: 08 "Run page").

Reads only. Steps, time, acts and transcript are made by the modules beside this one; here the rows are fetched once
and handed out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, Final

from django.db.models.functions import Now
from django.utils.translation import gettext as _

from boards.models import (
    Attempt,
    EventWait,
    Flow,
    FlowRun,
    FlowStep,
    FlowVersion,
    Hold,
    Member,
    StepChange,
    Task,
    Visit,
)
from boards.queries.asks import AskView, asks_for
from boards.queries.run_acts import RunAct, Standing, acts_on, stands_in_the_way
from boards.queries.run_due import Countdown, countdown, due_moments, stops_of
from boards.queries.run_inner import Inside
from boards.queries.run_log import Log, run_log
from boards.queries.run_more import inside, signal_words, spans_inside, told_events
from boards.queries.run_steps import PERSON_KINDS, StepView, run_state, step_views
from boards.queries.run_time import Axis, Span, TimeRow, bars, sums
from boards.queries.schema_fields import Field, fields_of
from boards.queries.task_output import Shown, shown
from boards.states import LIVE, Cause, HoldState, Phase, RunStatus, Status

_HEAVY: Final = ("context", "write_log", "steers", "input", "goal", "metadata", "retry_ledger")
_SAME_MOVE: Final = timedelta(seconds=2)  # a move and the question that it closes are written together


@dataclass(frozen=True, slots=True)
class StartForm:
    """The JSON schema of what starts a run, and the names in their author's order where it is known."""

    schema: dict[str, Any]
    order: tuple[str, ...] = ()

    def fields(self, values: dict[str, Any] | None = None) -> tuple[Field, ...]:
        return fields_of(self.schema, values, self.order)


@dataclass(frozen=True, slots=True)
class Output:
    """What one step handed in; `file` is a path that the run page links, or ""."""

    step_key: str
    step_name: str
    shown: Shown
    file: str = ""

    @property
    def file_name(self) -> str:
        return PurePosixPath(self.file).name


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the history, newest first. `what` is bold, `rest` follows it."""

    icon: str
    what: str
    rest: str
    at: datetime
    trigger: str = ""
    said: str = ""  # the agent's word that its step was complete, where that moved the run


@dataclass(frozen=True, slots=True)
class RunPage:
    run: FlowRun
    now: datetime
    state: str
    state_words: str
    steps: list[StepView]
    asks: list[AskView]
    answered: list[AskView]
    rows: list[TimeRow]
    sums: dict[str, float]
    axis: Axis
    history: list[Moment]
    outputs: list[Output]
    inputs: Shown
    data: Shown
    acts: list[RunAct]
    stopping: bool
    due_passed: bool  # what is being stopped was withdrawn
    countdown: Countdown | None
    task: Task | None
    log: Log
    filters: list[StepView]
    step_filter: str
    step_names: dict[int, str]
    caller: FlowRun | None = None
    move_cancels: bool = False  # a move would have to stop work that has begun
    waits_because: str = ""  # why a step that has not failed waits for a person, in the engine's words
    settling: bool = False  # an answer may still be taken back, and moves the run on then
    failing: str = ""  # why the step failed, while its failure steps are at work
    awaits_event: str = ""  # the key of the event that the current stay waits for

    @property
    def act(self) -> dict[str, RunAct]:
        return {act.verb: act for act in self.acts}

    @property
    def files(self) -> list[Output]:
        return [output for output in self.outputs if output.file]

    @property
    def again_from(self) -> list[StepView]:
        """The steps that the run has been in, from which it can be run again."""
        return [step for step in self.steps if step.times]

    @property
    def moves(self) -> list[StepView]:
        """The steps that a person may move the run to."""
        return [step for step in self.steps if not step.is_current]


def find_run(member: Member, key: str, number: int) -> FlowRun | None:
    """A run of the member's space, with `db_now`; None for what is not there and for what is not theirs."""
    rows = FlowRun.objects.filter(flow__space_id=member.space_id, flow__key=key, number=number)
    return rows.select_related("flow__board", "version", "current_visit").annotate(db_now=Now()).first()


def newest_inputs(flow: Flow) -> StartForm:
    """What starting a run of the flow's newest version asks for."""
    settings = FlowVersion.objects.filter(flow=flow).order_by("-number").values_list("settings", flat=True).first()
    return start_form(settings or {})


def start_form(settings: dict[str, Any]) -> StartForm:
    """What the settings of a version ask for; nothing where they name no inputs."""
    schema, order = settings.get("inputs"), settings.get("inputs_order")
    return StartForm(schema if isinstance(schema, dict) else {}, tuple(order) if isinstance(order, list) else ())


def file_paths(run: FlowRun) -> set[str]:
    """Every path that an output of the run names; the only ones that its page serves."""
    visits = list(run.visits.all())
    tasks = {task.key: task for task in _tasks(run)}
    return {path for visit in visits if (path := _file_of(_output_of(visit, tasks)))}


def log_of(run: FlowRun, step: str = "", *, after: int = 0, before: int = 0) -> Log:
    """The transcript alone, of the whole run or of one step; three queries."""
    names = _step_names(_tasks(run), list(run.visits.all()), _steps(run), step)
    return run_log(run, names, _now(run), after=after, before=before, own=not step)


def run_page(run: FlowRun, member: Member, *, step: str = "") -> RunPage:
    """All that the page shows; `step`: whose transcript, "" for all of it."""
    now, steps, visits, tasks = _now(run), _steps(run), list(run.visits.all()), _tasks(run)
    by_key = {task.key: task for task in tasks}
    attempts = _by_task(Attempt.objects.filter(task__in=list(by_key)).defer("output", "steps", "spend", "claimed_by"))
    asks = asks_for(member, run=run)
    holds = [ask.hold for ask in asks]
    open_holds = [hold for hold in holds if hold.state == HoldState.OPEN]
    task = by_key.get(run.current_visit.task_id or 0) if run.current_visit else None
    works = any(each.visit_id == run.current_visit_id and not each.is_ended for each in tasks)
    causes = stops_of(run) if not works else set()
    stopping = bool(causes)
    agent = run.version.settings.get("agent", "")
    changes = list(StepChange.objects.filter(run=run).order_by("pk"))
    passed = _passed(steps, visits, by_key, holds, changes)
    within = inside(run, by_key, open_holds, now)
    nodes = step_views(
        run,
        steps,
        visits,
        by_key,
        open_holds,
        now,
        stopping=stopping,
        default_assignee=agent,
        passed=passed,
        inside=within,
    )
    names = _step_names(tasks, visits, steps, step)
    axis = Axis(run.created_at, run.completed_at or now)
    spans = spans_inside(visits, tasks, attempts, holds, within, axis.end)
    state, words = run_state(run, nodes)
    step_of = {visit.pk: visit.step_key for visit in visits}
    worked = {step_of.get(each.visit_id or 0) for each in tasks}
    settling = any(
        ask.hold.visit_id == run.current_visit_id and getattr(ask.hold, "is_settling", False) for ask in asks
    )
    if settling and not open_holds:
        state, words = "waiting", _("The answer settles")
    standing = replace(_standing(run, nodes, task, open_holds, stopping, within), settling=settling)
    return RunPage(
        run=run,
        now=now,
        state="stopping" if stopping else state,
        state_words=_("Stopping…") if stopping else words,
        steps=nodes,
        asks=[ask for ask in asks if ask.is_open],
        answered=[ask for ask in asks if not ask.is_open],
        rows=[row for node in nodes if node.times for row in _time_rows(node, spans, axis)],
        sums=sums(span for each in spans.values() for span in each),
        axis=axis,
        history=_history(run, steps, changes, [ask for ask in asks if not ask.is_open]),
        outputs=_outputs(visits, by_key, steps),
        inputs=shown(run.inputs),
        data=shown(run.data),
        acts=acts_on(standing, member),
        stopping=stopping,
        due_passed=Cause.WITHDRAW in causes,
        countdown=countdown(run, nodes, works=works, asks=bool(open_holds), now=now),
        task=task,
        log=run_log(run, names, now, own=not step),
        filters=[node for node in nodes if node.key in worked],
        step_filter=step,
        step_names=names,
        caller=FlowRun.objects.filter(visits=run.called_by_id).select_related("flow").first()
        if run.called_by_id
        else None,
        move_cancels=stands_in_the_way(standing),
        waits_because=_error_in(run, Phase.WAITING),
        failing=_error_in(run, Phase.FAILURE),
        awaits_event=_awaited(run, nodes),
        settling=settling,
    )


def _awaited(run: FlowRun, nodes: Sequence[StepView]) -> str:
    """The key of the event that the run waits for where it stands, or ''; asked only of a step that waits."""
    visit = run.current_visit
    waits = any(node.is_current and node.kind == "wait" for node in nodes) and run.status == RunStatus.ACTIVE
    if visit is None or not waits or visit.phase != Phase.WAITING or visit.output is not None:
        return ""
    return EventWait.objects.filter(visit=visit).values_list("key", flat=True).first() or ""


def _error_in(run: FlowRun, phase: Phase) -> str:
    """What the current stay of an active run says went wrong, where it stands in that phase."""
    visit = run.current_visit
    stands = visit is not None and visit.phase == phase and run.status == RunStatus.ACTIVE
    return visit.error if visit is not None and stands else ""


def _now(run: FlowRun) -> datetime:
    now: datetime = run.db_now  # type: ignore[attr-defined]
    return now


def _steps(run: FlowRun) -> list[FlowStep]:
    return list(FlowStep.objects.filter(version=run.version_id).order_by("position"))


def _tasks(run: FlowRun) -> list[Task]:
    return list(Task.objects.filter(visit__run=run).defer(*_HEAVY).order_by("pk"))


def _by_task(attempts: Any) -> dict[int, list[Attempt]]:
    found: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.task_id].append(attempt)
    return found


def _step_names(
    tasks: Sequence[Task], visits: Sequence[Visit], steps: Sequence[FlowStep], only: str = ""
) -> dict[int, str]:
    """Task key -> name of the step that filed it; of one step where given."""
    names = {step.key: step.name for step in steps}
    step_of = {visit.pk: visit.step_key for visit in visits}
    keys = {task.key: step_of.get(task.visit_id or 0, "") for task in tasks}
    return {task: names.get(step, step) for task, step in keys.items() if not only or step == only}


def _time_rows(node: StepView, spans: Mapping[str, list[Span]], axis: Axis) -> list[TimeRow]:
    """The step's own row, and one for each work inside it."""
    own = spans.get(node.key, [])
    made = [TimeRow(node.key, node.name, bars(own, axis), node.seconds or 0.0, sums(own))]
    for each in node.inner:
        within = spans.get(f"{node.key}/{each.key}", [])
        if within:
            key = f"{node.key}-{each.key}"
            made.append(TimeRow(key, each.name, bars(within, axis), each.seconds or 0.0, sums(within), inner=True))
    return made


def _passed(
    steps: Sequence[FlowStep],
    visits: Sequence[Visit],
    tasks: Mapping[int, Task],
    holds: Sequence[Hold],
    changes: Sequence[StepChange],
) -> dict[str, str]:
    """Step key -> words, for steps whose last stay ended by a manual move before its question or task was done."""
    last_change = {change.from_step: change for change in changes}
    last_stay = {visit.step_key: visit for visit in visits}
    closed = {hold.visit_id for hold in holds if hold.state in {HoldState.ANSWERED, HoldState.EXPIRED}}
    order = {step.key: step.position for step in steps}
    found = {}
    for step in steps:
        change, stay = last_change.get(step.key), last_stay.get(step.key)
        if change is None or stay is None or change.trigger != StepChange.Trigger.MANUAL:
            continue
        task = tasks.get(stay.task_id or 0)
        undone = stay.pk not in closed if step.kind in PERSON_KINDS else task and task.status != Status.COMPLETED
        if undone:
            found[step.key] = _("moved past") if order.get(change.to_step, 0) > step.position else _("moved back")
    return found


def _history(
    run: FlowRun, steps: Sequence[FlowStep], changes: Sequence[StepChange], closed: Sequence[AskView]
) -> list[Moment]:
    names = {step.key: step.name for step in steps}
    moved = {ask.hold.pk: change for ask in closed for change in changes if _closed_by(ask.hold, change)}
    by_move = {change.pk for change in moved.values()}
    told = [
        Moment(
            "fwd",
            _way(c, names),
            _("the question was closed unanswered") if c.pk in by_move else _actor(c),
            c.at,
            c.trigger,
            signal_words(c),
        )
        for c in changes
        if c.from_step
    ]
    told += [Moment(one.icon, one.what, one.rest, one.at, "told") for one in told_events(run, names)]
    told.append(Moment("play", run.started_by_name or "Orchestra", "", run.created_at, "started"))
    told += [
        Moment(
            ask.mark,
            _("The question was closed unanswered") if ask.hold.state == HoldState.DISCARDED else ask.closed,
            ask.note,
            ask.hold.answered_at,
            "answered",
        )
        for ask in closed
        if ask.hold.answered_at and ask.hold.pk not in moved
    ]
    told += [Moment("clock", due.what, due.rest, due.at, "answered") for due in due_moments(run)]
    if run.completed_at:
        icon = {RunStatus.COMPLETED: "done", RunStatus.FAILED: "stuck"}.get(RunStatus(run.status), "skipped")
        told.append(Moment(icon, "", "", run.completed_at, run.status))
    return sorted(told, key=lambda moment: moment.at, reverse=True)


def _way(change: StepChange, names: Mapping[str, str]) -> str:
    way = {
        "from": names.get(change.from_step, change.from_step),
        "to": names.get(change.to_step, change.to_step),
    }
    if change.trigger == StepChange.Trigger.QUEUE_PROMOTION and change.from_step == change.to_step:
        return _("A place in %(to)s came free") % way
    if change.trigger != StepChange.Trigger.MANUAL:
        return f"{way['from']} → {way['to']}"
    return _("%(who)s moved it from %(from)s to %(to)s") % (way | {"who": change.actor or _("Somebody")})


def _actor(change: StepChange) -> str:
    return "" if change.trigger == StepChange.Trigger.MANUAL else change.actor  # `_way` names who moved it


def _closed_by(hold: Hold, change: StepChange) -> bool:
    """Whether a manual move closed this question of the step: one transaction does both."""
    if change.trigger != StepChange.Trigger.MANUAL or hold.state != HoldState.DISCARDED or hold.visit is None:
        return False
    close = hold.answered_at is not None and abs(hold.answered_at - change.at) < _SAME_MOVE
    return close and hold.visit.step_key == change.from_step


def _output_of(visit: Visit, tasks: dict[int, Task]) -> Any:
    """What a stay handed in: the visit's own output, else its completed task's."""
    if visit.output is not None:
        return visit.output
    task = tasks.get(visit.task_id or 0)
    return task.output if task is not None and task.status == Status.COMPLETED else None


def _file_of(output: Any) -> str:
    path = output.get("file") if isinstance(output, dict) else None
    return path if isinstance(path, str) else ""


def _outputs(visits: Sequence[Visit], tasks: dict[int, Task], steps: Sequence[FlowStep]) -> list[Output]:
    """The newest output of each step, in the order of the steps."""
    latest = {visit.step_key: output for visit in visits if (output := _output_of(visit, tasks)) is not None}
    return [
        Output(step.key, step.name, shown(latest[step.key]), _file_of(latest[step.key]))
        for step in steps
        if step.key in latest
    ]


def _standing(
    run: FlowRun,
    nodes: Sequence[StepView],
    task: Task | None,
    open_holds: Sequence[Hold],
    stopping: bool,
    within: Inside,
) -> Standing:
    visit = run.current_visit
    node = next((node for node in nodes if visit and node.key == visit.step_key), None)
    filed = (
        Task.objects.filter(filed_by_task=task, status__in=sorted(LIVE)).count() if task and not task.is_ended else 0
    )
    here = visit.pk if visit is not None and visit.left_at is None else 0
    inner = [within.tasks.get(row.task_id or 0) for row in within.branches.get(here, ()) if not row.outcome]
    calls = [child for child in within.children.get(here, ()) if child.status == RunStatus.ACTIVE]
    return Standing(
        inner=[each for each in inner if each is not None and not each.is_ended],
        calls=calls[0].name if calls else "",
        run=run,
        visit=visit,
        kind=node.kind if node else "",
        step_name=node.name if node else "",
        task=task,
        asks=bool(open_holds),
        filed=filed,
        stopping=stopping,
    )

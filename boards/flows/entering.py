"""From one step to the next: exit events, the step change, history, and what runs on entry (spec: 05 sections 2.2-2.3).

Works inside the transaction of `advance` (or of a start), under the run's lock. Filing the step's task and opening its
hold happen in it; nothing here decides where a run goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now

from boards import people
from boards.actors import Chain
from boards.errors import Refusal
from boards.flows import afterwards, data, due_times, failing, runs, templating, wip, works
from boards.flows.definition import MANY_KINDS, Action, FlowDefinition, StepDefinition
from boards.flows.limits import Limits
from boards.flows.side_effects import SIDE_EFFECTS
from boards.flows.steps.registry import STARTERS
from boards.flows.templating import TemplatingError
from boards.models import FlowRun, StepChange, Visit
from boards.states import Phase, RunStatus


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where a run goes and because of what. `runs_entry` False: the target's `on_enter` is not run.

    `change` None: the same step is entered again, which is no step change and makes no history row.
    `has_place`: whether the step has a place for it, where that is known; None asks. `message`: of a person, which
    starts a turn there.
    """

    step: StepDefinition
    chain: Chain
    actor: str
    change: StepChange.Trigger | None
    signal: Any = None
    runs_entry: bool = True
    cause: str = ""
    has_place: bool | None = None
    message: str = ""


def go(run: FlowRun, flow: FlowDefinition, arrival: Arrival) -> Visit | None:
    """Leave the current step, if any, and enter another. Whatever fails in the new step fails that step, not this call.

    Where the new step is full the run queues there and None is answered: it has left its step for good, and what the
    new one does on entry waits for a place. Raises TemplatingError, with nothing written, where an exit event of the
    current step cannot be worked out.
    """
    left, limits = run.current_visit, wip.newest_limits(run.flow_id)
    came_from = left.step_key if left else run.queued_step
    source = flow.step(left.step_key) if left else None
    exit_data = changed_data(run, flow, source.on_exit if source and arrival.change else ())
    keeps_its_place = run.step_key == arrival.step.key and run.status in wip.TAKES_A_PLACE
    if left is not None and left.left_at is None:
        if source is None or source.kind in MANY_KINDS or left.phase == Phase.FAILURE:
            afterwards.clear_later(run, left, _cause(arrival), _left_words(arrival))
        runs.write_visit(left, phase=Phase.LEFT, left_at=Now())
    if arrival.change is not None:
        StepChange.objects.create(
            run=run,
            from_step=came_from,
            to_step=arrival.step.key,
            trigger=arrival.change,
            actor=arrival.actor,
            signal=arrival.signal,
        )
    runs.reopen(run, arrival.chain)
    visit = None
    if keeps_its_place or _has_place(run, flow, arrival, limits):
        visit = _enter(run, flow, arrival, came_from, exit_data)
    else:
        wip.queue(run, arrival.step.key, arrival.chain, entry=arrival.runs_entry, data=exit_data)
    if left is not None:
        people.discard_visit_holds(arrival.chain, left.pk, _left_words(arrival))
    if arrival.change is not None:
        _owe_places(run, arrival, limits, left.step_key if left else "")
    return visit


def _has_place(run: FlowRun, flow: FlowDefinition, arrival: Arrival, limits: Limits) -> bool:
    """A terminal step needs none: the run is over there."""
    if arrival.has_place is not None:
        return arrival.has_place
    return flow.is_terminal(arrival.step) or wip.has_place(run.flow_id, limits, arrival.step.key)


def _enter(run: FlowRun, flow: FlowDefinition, arrival: Arrival, came_from: str, exit_data: dict[str, Any]) -> Visit:
    visit = _new_visit(run, arrival.step)
    runs.write(run, current_visit=visit, signal=None, queued_step="", queued_at=None, queued_entry=True, data=exit_data)
    told = {"from": came_from} if came_from else {}
    runs.note(run, arrival.chain, "step.entered", visit=visit, cause=arrival.cause, **told)
    if flow.is_terminal(arrival.step):
        complete(run, visit, arrival.chain)
    elif failure := _begin(run, flow, arrival, visit):
        failing.fail(run, flow, visit, failure, arrival.chain)
    return visit


def _owe_places(run: FlowRun, arrival: Arrival, limits: Limits, left: str) -> None:
    """The place that was left may be another's now, and this run may wait for one itself.

    A person who moves a card back to where its step pulls from wants it to stay there, for now.
    """
    is_put_back = arrival.change is StepChange.Trigger.MANUAL and limits.feeder(left) == arrival.step.key
    wip.owe_left(run, left, limits, but=run.pk if is_put_back else None)
    if not is_put_back:
        wip.owe_waits(run, limits)


def _cause(arrival: Arrival) -> str:
    """Why what the step that is left still has at work ends."""
    match arrival.change:
        case StepChange.Trigger.CHILDREN_COMPLETED:
            return "join"
        case StepChange.Trigger.FAILURE:
            return failing.CAUSE
    return "teardown"


def _left_words(arrival: Arrival) -> str:
    return f"the run went on to {arrival.step.name}."


def complete(run: FlowRun, visit: Visit, chain: Chain) -> None:
    """The run ends well, in the step where it stands."""
    runs.write_visit(visit, phase=Phase.LEFT, left_at=Now())
    runs.write(run, status=RunStatus.COMPLETED, completed_at=Now())
    runs.note(run, chain, "run.completed", visit=visit)
    wip.owe_left(run, visit.step_key)
    afterwards.tell_parent(run)


def changed_data(run: FlowRun, flow: FlowDefinition, actions: Sequence[Action], output: Any = None) -> dict[str, Any]:
    """The run's data after `actions`, whose other side effects are done or owed by the way. Raises TemplatingError."""
    changed = dict(run.data)
    for action in actions:
        known = data.values(run, flow, output) | {"data": changed}
        if action.type == "set_data":
            for name, told in action.options["data"].items():
                changed[name] = templating.render(told, known) if isinstance(told, str) else told
        elif action.type in SIDE_EFFECTS:
            SIDE_EFFECTS[action.type](run, action, known)
    return changed


def _new_visit(run: FlowRun, step: StepDefinition) -> Visit:
    # The visit where it stands is its newest; a run that stands in none has left some, or none.
    now = run.current_visit
    last = now.number if now is not None else run.visits.aggregate(last=Max("number"))["last"] or 0
    return Visit.objects.create(run=run, step_key=step.key, number=last + 1)


def _begin(run: FlowRun, flow: FlowDefinition, arrival: Arrival, visit: Visit) -> str:
    """Run the entry events and start the step's work; answers why it could not, or ''."""
    if not arrival.runs_entry and not arrival.message:
        runs.write_visit(visit, phase=Phase.WAITING)
        return ""
    before, owed = (run.data, run.context_from, run.revision), afterwards.mark()
    try:
        with transaction.atomic():  # a refused filing leaves nothing behind
            if arrival.message:
                begun = works.begin_turn(run, flow, arrival.step, visit, arrival.message)
            else:
                run.data = changed_data(run, flow, arrival.step.on_enter)
                begun = _start_work(run, flow, arrival.step, visit, arrival.chain)
    except (TemplatingError, Refusal) as error:
        afterwards.back_to(owed)
        run.data, run.context_from, run.revision = before  # as the row is again
        return str(error)
    runs.write_visit(visit, **begun)
    if run.data != before[0]:
        runs.write(run, data=run.data)
    return ""


def _start_work(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, chain: Chain) -> dict[str, Any]:
    """What runs in the step, by its kind; answers what the visit is to say."""
    starter = STARTERS.get(step.kind)
    if starter is None:
        return works.begin(run, flow, step, visit)
    # A due time that is written on a step of several works holds for the whole stay.
    return {"due_at": due_times.from_entry(step, run.flow.space)} | starter(run, flow, step, visit, chain)

"""From one step to the next: exit events, the step change, history, and what runs on entry (spec: 05 sections 2.2-2.3).

Works inside the transaction of `advance` (or of a start), under the run's lock. Filing the step's task and opening its
hold happen in it; nothing here decides where a run goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now

from boards import people, tasks
from boards.actors import Chain
from boards.errors import InvalidInput, Refusal
from boards.flows import data, runs, templating, wip
from boards.flows.definition import Action, FlowDefinition, StepDefinition
from boards.flows.limits import Limits
from boards.flows.templating import TemplatingError
from boards.models import FlowRun, Member, Role, StepChange, Visit
from boards.states import HoldKind, Phase, RunStatus
from boards.tasks import Filing

MAX_TITLE: Final = 200


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where a run goes and because of what. `runs_entry` False: the target's `on_enter` is not run.

    `change` None: the same step is entered again, which is no step change and makes no history row.
    `has_place`: whether the step has a place for it, where that is known; None asks.
    """

    step: StepDefinition
    chain: Chain
    actor: str
    change: StepChange.Trigger | None
    signal: Any = None
    runs_entry: bool = True
    cause: str = ""
    has_place: bool | None = None


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
    if left is not None and left.left_at is None:
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
    if _has_place(run, flow, arrival, limits):
        visit = _enter(run, flow, arrival, came_from, exit_data)
    else:
        wip.queue(run, arrival.step.key, arrival.chain, entry=arrival.runs_entry, data=exit_data)
    if left is not None:
        people.discard_visit_holds(arrival.chain, left.pk, f"the run went on to {arrival.step.name}.")
    if arrival.change is not None:
        _owe_places(run, arrival, limits, left.step_key if left else "")
    return visit


def _has_place(run: FlowRun, flow: FlowDefinition, arrival: Arrival, limits: Limits) -> bool:
    """Entering the same step anew keeps the place that the run has; a terminal step needs none."""
    if arrival.has_place is not None:
        return arrival.has_place
    return (
        arrival.change is None or flow.is_terminal(arrival.step) or wip.has_place(run.flow_id, limits, arrival.step.key)
    )


def _enter(run: FlowRun, flow: FlowDefinition, arrival: Arrival, came_from: str, exit_data: dict[str, Any]) -> Visit:
    visit = _new_visit(run, arrival.step)
    runs.write(run, current_visit=visit, signal=None, queued_step="", queued_at=None, queued_entry=True, data=exit_data)
    told = {"from": came_from} if came_from else {}
    runs.note(run, arrival.chain, "step.entered", visit=visit, cause=arrival.cause, **told)
    if flow.is_terminal(arrival.step):
        complete(run, visit, arrival.chain)
    elif failure := _begin(run, flow, arrival, visit):
        runs.fail_step(run, visit, failure, arrival.chain)
    return visit


def _owe_places(run: FlowRun, arrival: Arrival, limits: Limits, left: str) -> None:
    """The place that was left may be another's now, and this run may wait for one itself.

    A person who moves a card back to where its step pulls from wants it to stay there, for now.
    """
    is_put_back = arrival.change is StepChange.Trigger.MANUAL and limits.feeder(left) == arrival.step.key
    wip.owe_left(run, left, limits, but=run.pk if is_put_back else None)
    if not is_put_back:
        wip.owe_waits(run, limits)


def complete(run: FlowRun, visit: Visit, chain: Chain) -> None:
    """The run ends well, in the step where it stands."""
    runs.write_visit(visit, phase=Phase.LEFT, left_at=Now())
    runs.write(run, status=RunStatus.COMPLETED, completed_at=Now())
    runs.note(run, chain, "run.completed", visit=visit)


def changed_data(run: FlowRun, flow: FlowDefinition, actions: Sequence[Action], output: Any = None) -> dict[str, Any]:
    """The run's data after the side effects of `actions`. Raises TemplatingError."""
    changed = dict(run.data)
    for action in actions:
        if action.type == "set_data":
            known = data.values(run, flow, output) | {"data": changed}
            for name, told in action.options["data"].items():
                changed[name] = templating.render(told, known) if isinstance(told, str) else told
    return changed


def _new_visit(run: FlowRun, step: StepDefinition) -> Visit:
    last = run.visits.aggregate(last=Max("number"))["last"] or 0
    return Visit.objects.create(run=run, step_key=step.key, number=last + 1)


def _begin(run: FlowRun, flow: FlowDefinition, arrival: Arrival, visit: Visit) -> str:
    """Run the entry events and start the step's work; answers why it could not, or ''."""
    if not arrival.runs_entry:
        runs.write_visit(visit, phase=Phase.WAITING)
        return ""
    before = run.data
    try:
        run.data = changed_data(run, flow, arrival.step.on_enter)
        with transaction.atomic():  # a refused filing leaves nothing behind
            begun = _start_work(run, flow, arrival.step, visit)
    except (TemplatingError, Refusal) as error:
        run.data = before
        return str(error)
    runs.write_visit(visit, **begun)
    runs.write(run, data=run.data)
    return ""


def _start_work(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit) -> dict[str, Any]:
    """File the step's task or open its hold; answers what the visit is to say."""
    if step.files_task:
        return {"phase": Phase.WORKING, "task": _file_task(run, flow, step, visit)}
    if step.kind == "approval":
        return {"phase": Phase.WAITING, "due_at": _open_hold(run, flow, step, visit)}
    return {"phase": Phase.WAITING}


def _file_task(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit) -> Any:
    known = data.values(run, flow)
    prompts = [templating.render(each, known).strip() for each in (flow.prompt, step.prompt)]
    filing = Filing(
        goal="\n\n".join(part for part in prompts if part),
        title=_title(step, run),
        input=data.task_input(run),
        assignee=step.assignee or flow.agent,
        checker=step.checker,
        max_attempts=step.max_attempts,
    )
    board = run.flow.board
    return tasks.file_task(runs.chain_of(run), board, filing, visit=visit, session_id=run.session_id, allow_same=True)


def _open_hold(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit) -> Any:
    """Ask for the approval; answers the hold's due time, which is the step's."""
    known = data.values(run, flow)
    asked = templating.render(step.prompt, known).strip()
    hold = people.open_step_hold(
        runs.chain_of(run),
        visit,
        kind=HoldKind.APPROVAL,
        prompt=asked or f"May “{run.name}” go on from {step.name}?",
        title=_title(step, run),
        draft=templating.render(step.draft, known) if step.draft else None,
        due_in_ms=step.timeout_ms,
        **_decider(run, step),
    )
    return hold.due_at


def _decider(run: FlowRun, step: StepDefinition) -> dict[str, Any]:
    """Who may answer: anyone with the right, those of one role, or one person by the name on the roster."""
    name = step.assignee
    if not name:
        return {}
    if name in (Role.MEMBER, Role.OPERATOR):
        return {"assignee_role": name}
    entry = run.flow.board.roster.filter(name=name, kind="person").first()
    if entry is None:
        raise InvalidInput(f"“{name}”, who is to answer the step {step.name}, is no person on this board's roster.")
    if not Member.objects.filter(space=run.flow.space_id, user=entry.user_id).exists():
        raise InvalidInput(f"“{name}”, who is to answer the step {step.name}, is no member of this space any more.")
    return {"assignee_id": entry.user_id}


def _title(step: StepDefinition, run: FlowRun) -> str:
    title = f"{step.name}: {run.name}"
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"

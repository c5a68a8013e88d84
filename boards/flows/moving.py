"""What a person does to a run: mark complete and advance, run again, move (spec: 05 sections 2.1, 2.6-2.7).

Each verb checks the right and then goes through the one `advance`. The agent's signal: `boards.flows.signals`.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from boards import policy, tasks
from boards.actors import Chain
from boards.errors import NotFound
from boards.flows import by_keys, column_order, definition, runs
from boards.flows.acts import CANCEL_AND_MOVE, move_target
from boards.flows.advance import OLDER_VISIT, REPEATED, Trigger, advance
from boards.flows.decisions import ARCHIVED
from boards.flows.due_times import is_over
from boards.flows.refusals import IllegalRunMove, RunMovedOn
from boards.flows.situation import STARTED, working
from boards.locks import engine_transaction
from boards.models import FlowRun
from boards.states import Cause, Phase, RunStatus, Status
from boards.tasks import Reason, Recorded, TaskWriteOutcome, cleaning

MOVED_AWAY = Cause.TEARDOWN
MAX_MESSAGE: Final = 20_000
SENT, TURN_STARTED = "sent", "started"  # what became of a message
_NOWHERE = "The run stands in no step yet."


def mark_complete(chain: Chain, run: FlowRun, *, visit_id: int | None = None) -> FlowRun:
    """A person says that the current step is complete: the run advances, also where the signal is missing.

    Raises IllegalRunMove where the step still works or asks, RunMovedOn where `visit_id` is no longer the current one.
    """
    require(chain, run, "flows.move")
    return _advanced(chain, run, Trigger.MARK_COMPLETE, visit_id)


def move(
    chain: Chain,
    run: FlowRun,
    step_key: str,
    *,
    cancel_turn: bool = False,
    visit_id: int | None = None,
    before: int | None = None,
) -> FlowRun:
    """A person moves the run to a step. Refused while its task works, unless `cancel_turn` stops that first.

    A task that nobody has started is cancelled by the way. Where the step is full the run queues there. `before`: the
    key of the run before which its card is put, 0 for the last place, None for where it falls; within its own step
    that is all. `visit_id`: the stay that was seen, 0 for none. Raises IllegalRunMove or RunMovedOn.
    """
    require(chain, run, "flows.move")
    seen = _where_it_stands(run) if visit_id is None else visit_id
    _make_way(chain, run.pk, seen, step_key, cancel_turn)
    _moved(chain, run, seen, step_key, cancel_turn)
    if before is not None:
        column_order.put_before(chain, run.pk, before)
    run.refresh_from_db()
    return run


def run_again(chain: Chain, run: FlowRun, *, visit_id: int | None = None) -> FlowRun:
    """Work the current step again: its task is retried while it may be, else the step is entered anew.

    Raises IllegalRunMove where the step works or waits for an answer, or its last ending is not settled yet.
    """
    require(chain, run, "flows.move")
    seen = visit_id or _current_visit(run)
    if _retry_task(chain, run.pk, seen):
        run.refresh_from_db()
        return run
    return _advanced(chain, run, Trigger.RUN_AGAIN, seen)


def message(chain: Chain, run: FlowRun, text: str) -> str:
    """A person writes to a run: whoever works its turn reads it, else it starts the next turn (spec: 05 section 2.5).

    Answers SENT or TURN_STARTED. Raises InvalidInput, IllegalRunMove and the refusals of a steer.
    """
    require(chain, run, "flows.move")
    words = cleaning.required_text(text, "message", MAX_MESSAGE).strip()
    visit = FlowRun.objects.select_related("current_visit").get(pk=run.pk).current_visit
    task = working(visit) if visit is not None else None
    if task is not None:
        tasks.steer(chain, task, words)
        return SENT
    _advanced(chain, run, Trigger.TURN_START, None, message=words)
    return TURN_STARTED


def require(chain: Chain, run: FlowRun, action: str) -> None:
    """Refuse unless the chain may do this to a run of its own space; another space's run does not exist for it."""
    if run.flow.space_id != chain.space_id or not chain.sees_board(run.flow.board_id):
        raise NotFound("There is no such run.")
    policy.require(chain, action, run.flow.space_id)
    by_keys.require_run(chain, run)
    if chain.key is not None:
        by_keys.require_way(chain, definition.load(run.version), run.flow, run)


say = runs.say


def _current_visit(run: FlowRun) -> int:
    now = FlowRun.objects.only("current_visit", "queued_step").get(pk=run.pk)
    if now.current_visit_id is None:
        raise IllegalRunMove("The run still waits for a place in its step." if now.queued_step else _NOWHERE)
    return now.current_visit_id


def _where_it_stands(run: FlowRun) -> int:
    """Its current visit, or 0 where it is queued and has none."""
    now = FlowRun.objects.only("current_visit", "queued_step").get(pk=run.pk)
    if now.current_visit_id is None and not now.queued_step:
        raise IllegalRunMove(_NOWHERE)
    return now.current_visit_id or 0


def _moved(chain: Chain, run: FlowRun, seen: int, step_key: str, cancel_turn: bool) -> None:
    operation = f"{Trigger.MANUAL.value}:{uuid.uuid4()}"
    facts: dict[str, Any] = {"step": step_key, "cancel_turn": cancel_turn}
    outcome = advance(run.pk, seen or None, Trigger.MANUAL, operation_id=operation, chain=chain, **facts)
    if outcome in (OLDER_VISIT, REPEATED):
        raise RunMovedOn


def _advanced(chain: Chain, run: FlowRun, trigger: Trigger, visit_id: int | None, **facts: Any) -> FlowRun:
    operation = f"{trigger.value}:{uuid.uuid4()}"
    seen = visit_id or _current_visit(run)
    outcome = advance(run.pk, seen, trigger, operation_id=operation, chain=chain, **facts)
    if outcome in (OLDER_VISIT, REPEATED):
        raise RunMovedOn
    run.refresh_from_db()
    return run


@engine_transaction
def _make_way(chain: Chain, run_id: int, visit_id: int, step_key: str, cancel_turn: bool) -> None:
    """Cancel what stands in the way of a move, in a transaction of its own: tasks are locked after what a filing locks.

    A crash before the move leaves the run paused in its step, and the page says so.
    """
    run, flow = runs.lock(run_id)
    visit = run.current_visit
    if visit is None or visit.pk != visit_id:
        return
    target = move_target(run, flow, step_key)
    if target.key == visit.step_key:
        return
    started = working(visit, STARTED)
    if started is not None and not cancel_turn:
        label = Status(started.status).label.lower()
        raise IllegalRunMove(
            f"Its task is {label}, so the run cannot be moved yet. Cancel its turn and move it, or wait.",
            task=started.public_id,
            offer=CANCEL_AND_MOVE,
        )
    task = runs.task_of(visit)
    if task is None or task.is_ended:
        return  # of several works whatever is left is ended behind the move
    reason = f"{chain.name} moved the run to {target.name}."
    tasks.cancel(runs.flows_for(chain), task, reason, via="flow", cause=MOVED_AWAY)
    say(run, reason, task)


@engine_transaction
def _retry_task(chain: Chain, run_id: int, visit_id: int) -> bool:
    """Retry the visit's own task, where it may be; the run then works again in its step."""
    run, _ = runs.lock(run_id)
    visit = run.current_visit
    if visit is None or visit.pk != visit_id or run.status not in (RunStatus.ACTIVE, RunStatus.FAILED):
        return False
    if run.archived_at is not None:
        raise IllegalRunMove(ARCHIVED)
    if run.status == RunStatus.ACTIVE and visit.phase == Phase.FAILURE:
        return False  # its failure steps are under way
    task = runs.task_of(visit)
    if task is None or task.status not in (Status.ERRORED, Status.CANCELLED) or task.withdrawn or is_over(visit):
        return False
    outcome = tasks.retry(chain, task, requested_by=f"the step {visit.step_key}")
    if outcome.result is not Recorded.RECORDED:
        return _entered_anew(outcome)
    runs.reopen(run, chain)
    runs.write_visit(visit, phase=Phase.WORKING, error="")
    runs.note(run, chain, "step.retried", visit=visit)
    return True


def _entered_anew(outcome: TaskWriteOutcome) -> bool:
    """A retry that was declined for good makes way for a new task; one that has to wait is said."""
    if outcome.reason is Reason.SETTLING:
        raise IllegalRunMove(outcome.sentence)
    return False

"""The one function that advances a run (spec: 05 section 2).

`advance` locks the run, applies each operation id once, looks at the current step, and lets the trigger's handler ask
`decisions` and write the answer. A trigger of an older visit is recorded and ignored. What a template or a filing
refuses fails the step; it is never raised from here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from django.db import connection

from boards.actors import Chain, service
from boards.debts.kinds import pays
from boards.flows import acts, afterwards, failure_steps, put_away, repairs, runs, timeouts, turns
from boards.flows.situation import Situation
from boards.flows.steps import called, looping, simple
from boards.locks import engine_transaction
from boards.models import Debt, FlowOperation, Visit
from boards.stored_text import clean_text


class Trigger(StrEnum):
    """What asks a run to advance."""

    TASK_ENDED = "task_ended"  # facts: task_key, ending, had_open_hold
    HOLD_CLOSED = "hold_closed"  # facts: hold
    TIMEOUT = "timeout"  # facts: task_key; the step's task was withdrawn
    TURN_START = "turn_start"
    PASSED = "passed"  # a choice is made, a notice was given
    WAIT_OVER = "wait_over"  # the moment that a `wait` waits for has come
    EVENT = "event"  # an event that a `wait` waits for is kept
    FAILURE_STEPS = "failure_steps"  # facts: round; the step failed, and its `on_failure` follows
    CHILD_ENDED = "child_ended"  # facts: child, ended; a run that the step called has ended
    JUDGED = "judged"  # facts: round, verdict; the judge of a `loop` has spoken
    FINALIZED = "finalized"  # facts: result; the `finalize` of a `loop` has run
    MARK_COMPLETE = "mark_complete"
    MANUAL = "manual"  # facts: step, cancel_turn
    RUN_AGAIN = "run_again"
    SKIP = "skip"  # facts: reason
    BY_HAND = "complete_by_hand"  # facts: output
    RUN_FROM = "run_from"  # facts: step


REPEATED: Final = "repeated"
OLDER_VISIT: Final = "older_visit"

_WAITS: Final = frozenset({Trigger.WAIT_OVER, Trigger.EVENT})
# They refuse an archived run themselves, in words.
_OF_PERSONS: Final = frozenset(
    {
        Trigger.MARK_COMPLETE,
        Trigger.MANUAL,
        Trigger.RUN_AGAIN,
        Trigger.SKIP,
        Trigger.BY_HAND,
        Trigger.RUN_FROM,
        Trigger.TURN_START,
    }
)

_HANDLERS: Final[dict[Trigger, Callable[[Situation], str]]] = {
    Trigger.TASK_ENDED: turns.task_ended,
    Trigger.HOLD_CLOSED: turns.hold_closed,
    Trigger.TIMEOUT: timeouts.timed_out,
    Trigger.TURN_START: turns.turn_start,
    Trigger.PASSED: simple.passed,
    Trigger.WAIT_OVER: simple.wait_over,
    Trigger.EVENT: simple.event_came,
    Trigger.FAILURE_STEPS: failure_steps.go_on,
    Trigger.CHILD_ENDED: called.child_ended,
    Trigger.JUDGED: looping.judged,
    Trigger.FINALIZED: looping.finalized,
    Trigger.MARK_COMPLETE: acts.mark_complete,
    Trigger.MANUAL: acts.move,
    Trigger.RUN_AGAIN: acts.run_again,
    Trigger.SKIP: repairs.skip,
    Trigger.BY_HAND: repairs.complete_by_hand,
    Trigger.RUN_FROM: repairs.run_from,
}


@engine_transaction
def advance(
    run_id: int, visit_id: int | None, trigger: str, *, cause: str = "", operation_id: str, chain: Chain, **facts: Any
) -> str:
    """Advance a run, once per operation id; answers what came of it, which is stored with the operation.

    `visit_id` None: whoever asks saw it queued, in no step; then a person's move is all there is.

    Raises IllegalRunMove for what a person asks and the run cannot do, NotFound where there is no such run; nothing
    is written then, and the operation id may be used again.
    """
    run, flow = runs.lock(run_id)
    operation = _begin(run.pk, operation_id[:200], Trigger(trigger))
    if operation is None:
        return REPEATED
    visit = run.current_visit
    if visit is None and visit_id is None and run.queued_step and trigger == Trigger.MANUAL:
        with afterwards.collecting():
            outcome = acts.move_queued(run, flow, chain, facts)
    elif visit is None or visit.pk != visit_id:
        outcome = OLDER_VISIT
    else:
        step = flow.step(visit.step_key)
        at = Situation(run, flow, visit, step, chain, cause, facts)
        if run.archived_at is not None and trigger in _WAITS:
            FlowOperation.objects.filter(pk=operation).delete()  # it fires once the run is out of the archive
            return put_away.ARCHIVED
        with afterwards.collecting():
            put = run.archived_at is not None and trigger not in _OF_PERSONS
            outcome = put_away.keep(at) if put else _HANDLERS[Trigger(trigger)](at)
    FlowOperation.objects.filter(pk=operation).update(outcome=outcome)
    return outcome


def _begin(run_id: int, operation_id: str, trigger: Trigger) -> int | None:
    """Store the operation; None where it was applied before. One statement, since nearly each is new."""
    with connection.cursor() as cursor:
        cursor.execute(
            """insert into boards_flowoperation (run_id, operation_id, trigger, outcome) values (%s, %s, %s, '')
               on conflict (run_id, operation_id) do nothing returning id""",
            [run_id, clean_text(operation_id), trigger.value],
        )
        row = cursor.fetchone()
    return row[0] if row else None


@pays("flow_advance")
def pay_flow_advance(debt: Debt) -> bool:
    """The debt that an ended task or a closed hold leaves; its unique key is the operation id."""
    told = dict(debt.data)
    visits = Visit.objects.filter(pk=int(told.pop("visit")))
    found = visits.values_list("pk", "run_id", "run__flow__space_id").first()
    if found is None:  # the run was deleted meanwhile
        return True
    visit_id, run_id, space_id = found
    advance(
        run_id,
        visit_id,
        told.pop("trigger"),
        cause=told.pop("cause", ""),
        operation_id=debt.unique_key,
        chain=service("flows", space_id),
        **told,
    )
    return True

"""A person stops a run, or its turn (spec: 05 sections 2.10, 3). The cause is an argument, never guessed."""

from __future__ import annotations

from typing import Final

from django.db.models.functions import Now

from boards import people, tasks
from boards.actors import Chain
from boards.flows import afterwards, runs
from boards.flows.decisions import USER_CANCEL
from boards.flows.moving import require, say
from boards.flows.refusals import IllegalRunMove
from boards.locks import engine_transaction
from boards.models import FlowRun, Hold, Task
from boards.states import TERMINAL, HoldState, Phase, RunStatus, Verb
from boards.tasks import Options, Recorded, Settlement, TaskWriteOutcome, cleaning

RUN_CANCEL: Final = "run_cancel"
HOLD_WORDS: Final = "the run was cancelled."


def cancel_run(chain: Chain, run: FlowRun, reason: str = "") -> FlowRun:
    """Cancel a run with its open tasks and holds; what already ended stays. A second cancel changes nothing.

    Raises IllegalRunMove for a run that is completed.
    """
    require(chain, run, "flows.cancel")
    reason = cleaning.checked_text(reason, "reason", cleaning.MAX_REASON).strip()
    words = f"{chain.name} cancelled the run{f': {reason}' if reason else '.'}"
    _cancel(chain, run.pk, words)
    _discard_left_over(chain, run.pk)
    run.refresh_from_db()
    return run


def cancel_turn(chain: Chain, run: FlowRun, *, cancel_filed: bool = True) -> TaskWriteOutcome:
    """A person cancels the turn that works: its task ends at once; the card moves, if at all, once that is stopped.

    Declined, `terminal`, where the turn has ended already. Raises IllegalRunMove where the step has no turn.
    """
    require(chain, run, "flows.cancel")
    return _cancel_turn(chain, run.pk, cancel_filed)


def cancel_called(chain: Chain, run_id: int, words: str) -> None:
    """Cancel a run because the step that called it goes on without it; one that has ended stays as it is."""
    if FlowRun.objects.filter(pk=run_id, status=RunStatus.ACTIVE).exists():
        _cancel(chain, run_id, words)


@engine_transaction
def _cancel(chain: Chain, run_id: int, words: str) -> None:
    """One write: the run cancelled, its open tasks cancelled, what its step asks discarded."""
    run, _ = runs.lock(run_id)
    if run.status == RunStatus.CANCELLED:
        return
    if run.status == RunStatus.COMPLETED:
        raise IllegalRunMove("The run is completed, so nothing is left to cancel.")
    was, visit = run.status, run.current_visit
    runs.write(run, status=RunStatus.CANCELLED, completed_at=Now(), error=words, signal=None)
    if visit is not None and visit.left_at is None:
        runs.write_visit(visit, phase=Phase.LEFT, left_at=Now())
    if keys := _open_tasks(run):
        tasks.settle_many([_settlement(runs.flows_for(chain), key, words) for key in keys])
    elif visit is not None:
        people.discard_visit_holds(chain, visit.pk, HOLD_WORDS)
    say(run, words)
    runs.note(run, chain, "run.cancelled", visit=visit, cause=RUN_CANCEL, was=was, text=words[:2000])
    if visit is not None:
        afterwards.clear_later(run, visit, RUN_CANCEL, words)
    afterwards.tell_parent(run)


def _open_tasks(run: FlowRun) -> list[int]:
    live = Task.objects.filter(visit__run=run).exclude(status__in=sorted(TERMINAL))
    return list(live.order_by("pk").values_list("pk", flat=True))


def _settlement(chain: Chain, key: int, words: str) -> Settlement:
    options = Options(advisory=True)
    return Settlement(Verb.CANCEL, chain, key, options, text=words, via="flow", cause=RUN_CANCEL, cancel_filed=True)


@engine_transaction
def _discard_left_over(chain: Chain, run_id: int) -> None:
    """Holds of a run whose tasks were cancelled too: tasks are locked before holds, so these take a turn of their own.

    The run is cancelled by now, so nobody can answer them meanwhile.
    """
    left_over = Hold.objects.filter(visit__run=run_id, state=HoldState.OPEN).values_list("visit", flat=True)
    visits = sorted({key for key in left_over if key is not None})
    if visits:
        runs.lock(run_id)
    for key in visits:
        people.discard_visit_holds(chain, key, HOLD_WORDS)


@engine_transaction
def _cancel_turn(chain: Chain, run_id: int, cancel_filed: bool) -> TaskWriteOutcome:
    """One write ends the turn's task; its debts are the stop, and behind that the run's advance (section 3.5)."""
    run, flow = runs.lock(run_id)
    visit = run.current_visit
    task = runs.task_of(visit) if visit else None
    if task is None:
        raise IllegalRunMove("Nothing works in this step, so there is no turn to cancel.")
    step = flow.step(visit.step_key) if visit else None
    words = f"{chain.name} cancelled this turn."
    outcome = tasks.cancel(chain, task, words, via="person", cause=USER_CANCEL, cancel_filed=cancel_filed)
    if outcome.result is Recorded.RECORDED:
        say(run, f"Turn cancelled by {chain.name}", task)
        name = step.name if step else ""
        runs.note(run, chain, "step.turn_cancelled", visit=visit, cause=USER_CANCEL, name=name)
    return outcome

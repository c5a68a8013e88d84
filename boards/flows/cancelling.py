"""A person stops a run, or its turn (spec: 05 sections 2.10, 3). The cause is an argument, never guessed."""

from __future__ import annotations

from typing import Final

from django.db.models import QuerySet
from django.db.models.functions import Now

from boards import people, tasks
from boards.actors import Chain, service
from boards.debts.kinds import pays
from boards.flows import afterwards, runs, wip
from boards.flows.moving import require, say
from boards.flows.refusals import IllegalRunMove
from boards.locks import engine_transaction
from boards.models import Branch, Debt, FlowRun, Hold, Task, Visit
from boards.states import TERMINAL, Cause, HoldState, Phase, RunStatus, Verb
from boards.tasks import Options, Recorded, Settlement, TaskWriteOutcome, cleaning

HOLD_WORDS: Final = "the run was cancelled."


def cancel_run(chain: Chain, run: FlowRun, reason: str = "") -> FlowRun:
    """Cancel a run with its open tasks and questions; what already ended stays. A second cancel changes nothing.

    Raises IllegalRunMove for a run that is completed.
    """
    require(chain, run, "flows.cancel")
    reason = cleaning.checked_text(reason, "reason", cleaning.MAX_REASON).strip()
    words = f"{chain.name} cancelled the run{f': {reason}' if reason else '.'}"
    _cancel(chain, run.pk, words, Cause.RUN_CANCEL)
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
        _cancel(chain, run_id, words, Cause.PARENT_STOP)


@engine_transaction
def _cancel(chain: Chain, run_id: int, words: str, cause: str) -> None:
    """One write: the run cancelled, its open tasks cancelled, what it asks discarded. The rest are debts."""
    run, _ = runs.lock(run_id)
    if run.status == RunStatus.CANCELLED:
        return
    if run.status == RunStatus.COMPLETED:
        raise IllegalRunMove("The run is completed, so nothing is left to cancel.")
    was, visit = run.status, run.current_visit
    runs.write(run, status=RunStatus.CANCELLED, completed_at=Now(), error=words, signal=None)
    Branch.objects.filter(visit__run=run, ended_at=None).update(ended_at=Now(), outcome="cancelled", phase=Phase.LEFT)
    if visit is not None and visit.left_at is None:
        runs.write_visit(visit, phase=Phase.LEFT, left_at=Now())
    stops = [_stop(runs.flows_for(chain), key, words, cause) for key in _open_tasks(run)]
    tasks.settle_many(stops, closing=lambda _: _discard(chain, Hold.objects.filter(visit__run=run), HOLD_WORDS))
    say(run, words)
    runs.note(run, chain, "run.cancelled", visit=visit, cause=cause, was=was, text=words[:2000])
    wip.owe_left(run, run.step_key)
    if _child_runs(run).exists():
        afterwards.later("child_runs_cancel", f"child_runs_cancel:{run.pk}:{run.revision}", run)
    afterwards.tell_parent(run)


def _open_tasks(run: FlowRun) -> list[int]:
    live = Task.objects.filter(visit__run=run).exclude(status__in=sorted(TERMINAL))
    return list(live.order_by("pk").values_list("pk", flat=True))


def _stop(chain: Chain, key: int, words: str, cause: str) -> Settlement:
    options = Options(advisory=True)
    return Settlement(Verb.CANCEL, chain, key, options, text=words, via="flow", cause=cause, cancel_filed=True)


def _discard(chain: Chain, asked: QuerySet[Hold], words: str) -> None:
    """Close what these visits still ask; the run's lock is held, so nothing new is asked meanwhile."""
    still_open = asked.filter(state=HoldState.OPEN, visit__isnull=False).values_list("visit", flat=True)
    for visit_id in sorted({visit for visit in still_open if visit is not None}):
        people.discard_visit_holds(chain, visit_id, words)


def _child_runs(run: FlowRun) -> QuerySet[FlowRun]:
    ends = (RunStatus.COMPLETED, RunStatus.CANCELLED)
    return FlowRun.objects.filter(called_by__run=run).exclude(status__in=ends).order_by("pk")


@pays("child_runs_cancel")
def cancel_child_runs(debt: Debt) -> bool:
    """Cancel the runs that a cancelled run had started; each is locked by itself, and its own children follow it."""
    run = FlowRun.objects.select_related("flow").filter(pk=debt.run_id or 0).first()
    child = _child_runs(run).first() if run else None
    if run is None or child is None:
        return True
    what = "cancelled" if run.status == RunStatus.CANCELLED else "archived"
    words = f"“{run.name}”, which called it, was {what}."
    _cancel(service("flows", run.flow.space_id), child.pk, words, Cause.PARENT_STOP)
    return False


@engine_transaction
def _cancel_turn(chain: Chain, run_id: int, cancel_filed: bool) -> TaskWriteOutcome:
    """One write ends the turn's task; its debts are the stop, and behind that the run's advance (section 3.5)."""
    run, flow = runs.lock(run_id)
    visit = run.current_visit
    keys = _turn_of(visit) if visit else []
    if visit is None or not keys:
        raise IllegalRunMove(_no_turn(visit))
    asked = Hold.objects.filter(visit=visit, state=HoldState.OPEN)
    words, asks = f"{chain.name} cancelled this turn.", _asks(visit, keys)
    stops = [_turn_stop(chain, key, words, cancel_filed, asks) for key in keys]

    def close(landed: int) -> None:
        if landed:
            _discard(chain, asked, words)
            unasked = Branch.objects.filter(visit=visit, task=None, ended_at=None)
            unasked.update(outcome="cancelled", ended_at=Now(), phase=Phase.LEFT, error=words)

    outcomes = tasks.settle_many(stops, closing=close)
    landed = [outcome for outcome in outcomes if outcome.result is Recorded.RECORDED]
    if not landed:
        return outcomes[0]
    task = runs.task_of(visit)
    step = flow.step(visit.step_key)
    say(run, f"Turn cancelled by {chain.name}", task)
    name = step.name if step else ""
    runs.note(run, chain, "step.turn_cancelled", visit=visit, cause=Cause.USER_CANCEL, name=name)
    return landed[0]


def _no_turn(visit: Visit | None) -> str:
    child = visit.child_runs.filter(status=RunStatus.ACTIVE).first() if visit else None
    if child is not None:
        return f"It waits for the run “{child.name}”, which has its own turns. Cancel that run instead."
    return "Nothing works in this step, so there is no turn to cancel."


def _asks(visit: Visit, keys: list[int]) -> bool:
    """Whether a question of the turn is open: of the stay, or of any task that works in it."""
    of_tasks = Hold.objects.filter(task__in=keys, state=HoldState.OPEN)
    return Hold.objects.filter(visit=visit, state=HoldState.OPEN).exists() or of_tasks.exists()


def _turn_of(visit: Visit) -> list[int]:
    """Keys of what works in this stay: its own task, and those of its branches that are not over."""
    works = Branch.objects.filter(visit=visit, ended_at=None, task__isnull=False).values_list("task", flat=True)
    return [key for key in (visit.task_id, *works) if key is not None]


def _turn_stop(chain: Chain, key: int, words: str, cancel_filed: bool, asks: bool) -> Settlement:
    return Settlement(
        Verb.CANCEL,
        chain,
        key,
        Options(advisory=True),
        text=words,
        via="person",
        cause=Cause.USER_CANCEL,
        cancel_filed=cancel_filed,
        asked=asks,
    )

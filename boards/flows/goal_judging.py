"""Runs the functions of a goal: they are code of others, so no transaction waits for them (spec: 03 section 6).

The debt `goal_judge` is taken for a while, the function is called, and what it says goes back through `advance`, whose
operation id lets it count once. A process that dies in between leaves the debt; the function is then called again.
"""

from __future__ import annotations

import contextvars
import logging
from datetime import timedelta
from typing import Any, Final

from django.db.models import Q
from django.db.models.functions import Now

from boards.actors import service
from boards.debts import paying
from boards.debts.kinds import pays_outside
from boards.debts.paying import Paid
from boards.flows import definition
from boards.flows.advance import Trigger, advance
from boards.flows.definition import StepDefinition
from boards.flows.goals import GOALS, Decision, GoalState, checked_tasks, checked_verdict
from boards.flows.steps.looping import FINALIZE
from boards.locks import Rank, engine_transaction, taking
from boards.models import Branch, Debt, Visit
from boards.tasks import cleaning

log = logging.getLogger(__name__)

TAKEN_FOR: Final = timedelta(minutes=5)  # a function that is still at it may then be called once more


@pays_outside("goal_judge")
def judge(debt_id: int) -> Paid:
    """Call the judge, and the replanner behind it, or `finalize`; then let the run hear of it, once."""
    debt = _take(debt_id)
    if debt is None:
        return Paid.NOT_DUE
    visit = Visit.objects.filter(pk=int(debt.data["visit"])).select_related("run__flow", "run__version__flow").first()
    try:
        if visit is not None:
            _tell(debt, visit)
    except Exception as error:
        log.exception("The goal of debt %s was not judged", debt_id)
        paying.note_failure(debt_id, error)
        return Paid.FAILED
    return _settle(debt_id)


@engine_transaction
def _take(debt_id: int) -> Debt | None:
    taking(Rank.DEBT)
    free = Debt.objects.filter(Q(data__taken__isnull=True) | Q(due_at__lte=Now()), pk=debt_id, state=Debt.State.OWED)
    debt = free.select_for_update(no_key=True, of=("self",)).first()
    if debt is not None:
        Debt.objects.filter(pk=debt.pk).update(data=debt.data | {"taken": True}, due_at=Now() + TAKEN_FOR)
    return debt


@engine_transaction
def _settle(debt_id: int) -> Paid:
    taking(Rank.DEBT)
    return Paid.PAID if Debt.objects.filter(pk=debt_id).delete()[0] else Paid.GONE


def _tell(debt: Debt, visit: Visit) -> None:
    step = definition.load(visit.run.version).step(visit.step_key)
    if step is None:
        return
    round_, finalizes = int(debt.data["round"]), debt.data["what"] == FINALIZE
    # In a context of its own: what the function files is not filed by the worker that happens to pay.
    told = contextvars.Context().run(_finalized if finalizes else _judged, step, _state(visit, step, round_))
    advance(
        visit.run_id,
        visit.pk,
        Trigger.FINALIZED if finalizes else Trigger.JUDGED,
        operation_id=debt.unique_key,
        chain=service("flows", visit.run.flow.space_id),
        round=round_,
        **told,
    )


def _judged(step: StepDefinition, state: GoalState) -> dict[str, Any]:
    """{"verdict"} with the replanner's tasks, or {"problem"}: whatever the functions raise is said, never raised."""
    try:
        verdict = checked_verdict(GOALS[step.judge](state))
        wants_plan = verdict["decision"] == Decision.REPLAN and not verdict["tasks"] and step.replanner
        if wants_plan and state.iteration < state.max_iterations:
            planned = GOALS[step.replanner](_with(state, verdict=verdict))
            verdict["tasks"] = checked_tasks(planned or [])
    except Exception as error:
        log.exception("A judge of a goal failed")
        return {"problem": _words(error)}
    return {"verdict": verdict}


def _finalized(step: StepDefinition, state: GoalState) -> dict[str, Any]:
    try:
        return {"result": cleaning.report_json(GOALS[step.finalize](state))}
    except Exception as error:
        log.exception("A finalize of a goal failed")
        return {"problem": _words(error)}


def _words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the function {error} is not registered in this process"
    return f"{type(error).__name__}: {error}"[:2000] if not isinstance(error, ValueError) else str(error)[:2000]


def _with(state: GoalState, **more: Any) -> GoalState:
    names = ("iteration", "max_iterations", "inputs", "data", "tasks", "verdict", "reason")
    return GoalState(**{name: getattr(state, name) for name in names} | more)


def _state(visit: Visit, step: StepDefinition, round_: int) -> GoalState:
    rows = visit.branches.filter(role=Branch.Role.STAGE)
    told = [
        {"key": b.key, "iteration": b.round, "status": b.outcome, "output": b.output, "error": b.error} for b in rows
    ]
    reason = str((visit.output or {}).get("reason", ""))
    return GoalState(round_, step.max_iterations or 1, visit.run.inputs, visit.run.data, told, {}, reason)

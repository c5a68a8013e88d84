"""The steps of `on_failure`, one after the other, and what becomes of the run behind them (spec: 05 sections 1, 2.11).

They belong to the visit of the step that failed and have no column. One that fails itself fails the run.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Max, QuerySet

from boards.errors import Refusal
from boards.flows import branches, failing, runs
from boards.flows.decisions import How, Turn
from boards.flows.definition import OnFailure
from boards.flows.ending import end_turn
from boards.flows.joining import COMPLETED
from boards.flows.outcomes import ENDED_RUN, OVERTAKEN
from boards.flows.situation import Situation, move_to
from boards.flows.steps.registry import looks
from boards.flows.templating import TemplatingError
from boards.models import Branch, StepChange
from boards.states import Phase, RunStatus


def go_on(at: Situation) -> str:
    """Begin the next failure step, or do what follows the last one."""
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    plan = at.step.on_failure if at.step is not None else None
    if at.visit.phase != Phase.FAILURE or plan is None:
        return OVERTAKEN
    this_round = _round(at)
    begun = {branch.key: branch for branch in _rows(at, this_round)}
    if any(not branch.outcome for branch in begun.values()):
        return OVERTAKEN
    fresh = next(((place, step) for place, step in enumerate(plan.steps) if step.key not in begun), None)
    if fresh is None:
        return _behind(at, plan)
    place, step = fresh
    try:
        with transaction.atomic():  # one that cannot begin leaves no row
            branches.start(at.run, at.flow, step, at.visit, role=Branch.Role.FAILURE, position=place, round=this_round)
    except (TemplatingError, Refusal) as error:
        return _failed_too(at, f"{step.name} could not begin: {error}")
    runs.write(at.run)
    runs.note(at.run, at.chain, "step.failure_step_begun", visit=at.visit, name=step.name)
    return f"began {step.key}"


@looks(branches.FAILURE_KIND)
def ended(at: Situation) -> str:
    """A failure step has ended: the next one begins; after one that failed the run fails."""
    latest = _rows(at, _round(at))
    failed = next((branch for branch in latest if branch.outcome not in ("", COMPLETED)), None)
    if failed is not None and at.run.status == RunStatus.ACTIVE:
        return _failed_too(at, f"{_name(at, failed)} failed too: {failed.error}")
    if failed is None and at.run.status == RunStatus.FAILED:
        runs.reopen(at.run, at.chain)  # one that had failed was retried from its page and completed
    return go_on(at)


def _round(at: Situation) -> int:
    """Which failure of this visit: given by the failing, else that of the steps which were begun last."""
    last: int | None = _failure_rows(at).aggregate(last=Max("round"))["last"]
    return int(at.facts.get("round") or last or 1)


def _rows(at: Situation, this_round: int) -> list[Branch]:
    return list(_failure_rows(at).filter(round=this_round))


def _failure_rows(at: Situation) -> QuerySet[Branch]:
    return at.visit.branches.filter(role=Branch.Role.FAILURE)


def _name(at: Situation, branch: Branch) -> str:
    steps = at.step.on_failure.steps if at.step is not None and at.step.on_failure is not None else ()
    return next((step.name for step in steps if step.key == branch.key), branch.key)


def _failed_too(at: Situation, words: str) -> str:
    failing.fail_run(at.run, at.visit, f"{at.visit.error} {words}".strip(), at.chain, failing.CAUSE)
    return "failed"


def _behind(at: Situation, plan: OnFailure) -> str:
    """Every failure step completed: the run fails after all, goes on as if nothing had been, or goes elsewhere."""
    words = at.visit.error
    if plan.then == "goto" and at.flow.step(plan.goto) is not None and plan.goto != at.visit.step_key:
        return move_to(at, plan.goto, at.run.flow.name, StepChange.Trigger.FAILURE)
    if plan.then == "continue":
        return end_turn(at, Turn(How.PASSED), at.run.flow.name, StepChange.Trigger.FAILURE)
    failing.fail_run(at.run, at.visit, words, at.chain, failing.CAUSE)
    return "failed"

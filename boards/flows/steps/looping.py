"""`loop`: work towards a goal: seed, work it off, judge, perhaps plan anew, again, finalize (spec: 03 section 6).

An iteration ends when all its tasks have ended, however. The judge runs outside of transactions as the debt
`goal_judge` (`boards.flows.goal_judging`); what it says comes back here as a trigger. Works under the run's lock.
"""

from __future__ import annotations

from typing import Any, Final

from django.db.models import Max

from boards.actors import Chain
from boards.errors import InvalidInput, Refusal
from boards.flows import afterwards, branches, failing, runs
from boards.flows.decisions import USER_CANCEL, How, Turn
from boards.flows.definition import FlowDefinition, StageTask, StepDefinition
from boards.flows.ending import end_turn
from boards.flows.goals import GOALS, Decision
from boards.flows.outcomes import ENDED_RUN, OVERTAKEN
from boards.flows.situation import Situation
from boards.flows.steps import parallel, stage
from boards.flows.steps.registry import looks, starts
from boards.flows.templating import TemplatingError
from boards.models import Branch, FlowRun, StepChange, Visit
from boards.states import Phase, RunStatus

JUDGE, FINALIZE = "judge", "finalize"
TERMINATION: Final = "goal-seek-loop-termination"


@starts("loop")
def start(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, chain: Chain) -> dict[str, Any]:
    missing = [name for name in (step.judge, step.replanner, step.finalize) if name and name not in GOALS]
    if missing or not step.judge:
        raise InvalidInput(
            f"The function “{missing[0] if missing else 'judge'}” of {step.name} is not registered here."
        )
    if not step.max_iterations:
        raise InvalidInput(f"The loop {step.name} has no max_iterations, so it could go on for ever.")
    if step.tasks:
        stage.file_all(run, flow, step, visit, step.tasks)
    else:
        _owe(run, visit, JUDGE, 1)
    return {"phase": Phase.WORKING}


@looks("loop")
def look(at: Situation) -> str:
    """A task has ended: once all of its iteration have, the judge is asked."""
    rows = list(at.visit.branches.filter(role=Branch.Role.STAGE))
    if any(not branch.outcome for branch in rows):
        return parallel.note_branch(at)
    if at.cause == USER_CANCEL:
        return parallel.cancelled(at, rows)
    if at.visit.output is not None:
        return OVERTAKEN
    branches.reopen(at)
    _owe(at.run, at.visit, JUDGE, max(branch.round for branch in rows))
    return "to be judged"


def judged(at: Situation) -> str:
    """What the judge said of an iteration: the goal is reached, or work goes on, or it cannot."""
    round_ = int(at.facts["round"])
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    if at.step is None or at.visit.phase != Phase.WORKING or _latest(at) > round_ or at.visit.output is not None:
        return OVERTAKEN
    if at.facts.get("problem"):
        return _judge_error(at, round_, str(at.facts["problem"]))
    verdict = at.facts["verdict"]
    if verdict["decision"] == Decision.DONE:
        return _over(at, round_, "done", verdict)
    if round_ >= (at.step.max_iterations or 1):
        return _over(at, round_, "max-iterations", verdict)
    if verdict["tasks"]:
        return _next(at, round_ + 1, verdict["tasks"])
    if verdict["decision"] == Decision.REPLAN:
        return _judge_error(at, round_, "it planned anew and named no work")
    _owe(at.run, at.visit, JUDGE, round_ + 1)
    return "judged again"


def _latest(at: Situation) -> int:
    last: int | None = at.visit.branches.filter(role=Branch.Role.STAGE).aggregate(last=Max("round"))["last"]
    return last or 0


def _next(at: Situation, round_: int, told: list[dict[str, Any]]) -> str:
    assert at.step is not None  # `judged` has looked
    try:
        more = tuple(
            StageTask(
                key=f"{each['key']}"[:60],
                goal=_as_text(each["goal"]),
                title=_as_text(each["title"]),
                assignee=each["assignee"],
                deps=tuple(each["deps"]),
            )
            for each in told
        )
        stage.file_all(at.run, at.flow, at.step, at.visit, more, round_)
    except (TemplatingError, Refusal) as error:
        return _judge_error(at, round_ - 1, f"its tasks could not be filed: {branches.outcome_of(error)}")
    runs.write(at.run)
    runs.note(at.run, at.chain, "step.iteration_begun", visit=at.visit, iteration=round_)
    return f"iteration {round_}"


def _as_text(told: str) -> str:
    """What a function wrote is text and no template."""
    return "{% raw %}" + told.replace("{% endraw %}", "") + "{% endraw %}" if told else ""


def _over(at: Situation, round_: int, reason: str, verdict: dict[str, Any]) -> str:
    """The loop is over: `finalize` runs where one is named, and then the step is complete."""
    assert at.step is not None  # `judged` has looked
    runs.note(at.run, at.chain, "step.loop_ended", visit=at.visit, entry=TERMINATION, reason=reason, iterations=round_)
    rows = at.visit.branches.filter(role=Branch.Role.STAGE)
    told = {f"{b.round}:{b.key}": {"status": b.outcome, "output": b.output} for b in rows}
    output = {"reason": reason, "iterations": round_, "said": verdict.get("reason", ""), "tasks": told, "result": None}
    runs.write_visit(at.visit, output=output)
    if at.step.finalize:
        runs.write(at.run)
        _owe(at.run, at.visit, FINALIZE, round_)
        return reason
    return end_turn(at, Turn(How.PASSED), at.run.flow.name, StepChange.Trigger.CHILDREN_COMPLETED)


def finalized(at: Situation) -> str:
    """`finalize` has run: its result stands in the step's output; what it raised fails the step."""
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    if at.visit.output is None or at.visit.phase != Phase.WORKING:
        return OVERTAKEN
    if at.facts.get("problem"):
        words = f"The loop is over, but its finalize failed: {at.facts['problem']}"
        failing.fail(at.run, at.flow, at.visit, words, at.chain, at.cause)
        return "failed"
    runs.write_visit(at.visit, output=at.visit.output | {"result": at.facts.get("result")})
    return end_turn(at, Turn(How.PASSED), at.run.flow.name, StepChange.Trigger.CHILDREN_COMPLETED)


def _judge_error(at: Situation, round_: int, problem: str) -> str:
    why = "judge-error"
    runs.note(at.run, at.chain, "step.loop_ended", visit=at.visit, entry=TERMINATION, reason=why, iterations=round_)
    words = f"The loop ended after {round_} iterations, because its judge failed: {problem}"
    failing.fail(at.run, at.flow, at.visit, words, at.chain, at.cause)
    return why


def _owe(run: FlowRun, visit: Visit, what: str, round_: int) -> None:
    # A task that is retried and ends anew has its iteration judged anew, as long as no later one has begun.
    key = f"goal_judge:{what}:{visit.pk}:{round_}:{run.revision}"
    afterwards.later("goal_judge", key, run, visit=visit.pk, what=what, round=round_)

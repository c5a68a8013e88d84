"""`stage`: tasks with dependencies among them, some required; over when those completed and no other is open.

They are filed on the flow's own board, whose roster, limits and drains serve them like any other task of the run; they
live as long as the run does. Rows and their endings: `boards.flows.branches`.
"""

from __future__ import annotations

from typing import Any

from boards import tasks
from boards.actors import Chain
from boards.flows import branches, data, failing, joining, runs, templating, works
from boards.flows.decisions import USER_CANCEL, How, Turn
from boards.flows.definition import FlowDefinition, StageTask, StepDefinition
from boards.flows.ending import end_turn
from boards.flows.joining import Staged
from boards.flows.situation import Situation
from boards.flows.steps import parallel
from boards.flows.steps.registry import looks, starts
from boards.models import Branch, FlowRun, StepChange, Task, Visit
from boards.states import Phase, RunStatus, Status
from boards.tasks import Filing


@starts("stage")
def start(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, chain: Chain) -> dict[str, Any]:
    file_all(run, flow, step, visit, step.tasks)
    return {"phase": Phase.WORKING}


def file_all(
    run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, told: tuple[StageTask, ...], round: int = 1
) -> None:
    """File the tasks of a stage, or of one iteration of a loop, all or none, each with its row."""
    visits = data.visits_of(run)
    known, given = data.values(run, flow, visits=visits), data.task_input(run, visits)
    prefix = f"{flow.key}-{run.number}-{visit.number}" + (f"-{round}" if round > 1 else "")
    filings = [_filing(run, flow, step, each, known, given, prefix) for each in told]
    filed = tasks.file_tasks(
        runs.chain_of(run), run.flow.board, filings, visit=visit, session_id=run.session_id, allow_same=True
    )
    for place, (each, task) in enumerate(zip(told, filed, strict=True)):
        fields = {"round": round, "required": each.required, "task": task, "phase": Phase.WORKING}
        branches.row(visit, each, Branch.Role.STAGE, place, due_at=works.due_in(each.timeout_ms), **fields)


def _filing(
    run: FlowRun,
    flow: FlowDefinition,
    step: StepDefinition,
    told: StageTask,
    known: dict[str, Any],
    given: dict[str, Any],
    prefix: str,
) -> Filing:
    goal = templating.render(told.goal, known).strip()
    title = templating.render(told.title, known).strip() if told.title else ""
    return Filing(
        goal=works.goal_of(flow, step.prompt, known) + f"\n\n{goal}" if (step.prompt or flow.prompt) else goal,
        id=f"{prefix}-{told.key}",
        title=works.title_of(title or f"{step.name}, {told.key}", run),
        input=given,
        assignee=told.assignee or step.assignee or flow.agent,
        checker=told.checker,
        max_attempts=told.max_attempts,
        deps=[f"{prefix}-{dep}" for dep in told.deps],
        stage=step.key,
        required=told.required,
    )


@looks("stage")
def look(at: Situation) -> str:
    rows = list(at.visit.branches.filter(role=Branch.Role.STAGE))
    if at.cause == USER_CANCEL and at.facts.get("ending") == Status.CANCELLED and at.run.status == RunStatus.ACTIVE:
        return parallel.cancelled(at, rows)  # of the whole turn, also where only what is not required was left
    match joining.staged((branch.required, branch.outcome) for branch in rows):
        case Staged.FAILED:
            return _failed(at, rows)
        case Staged.WAITS:
            return _waits(at, rows)
        case Staged.OPEN:
            branches.reopen(at)
            return parallel.note_branch(at)
    branches.reopen(at)
    runs.write_visit(at.visit, output={branch.key: _told(branch) for branch in rows}, error="")
    return end_turn(at, Turn(How.PASSED), at.run.flow.name, StepChange.Trigger.CHILDREN_COMPLETED)


def _told(branch: Branch) -> dict[str, Any]:
    return {"status": branch.outcome, "output": branch.output}


def _failed(at: Situation, rows: list[Branch]) -> str:
    """A required task failed or was cancelled. A cancel of the whole turn pauses instead, or completes it."""
    if at.run.status == RunStatus.FAILED:
        return "failed"
    bad = next(branch for branch in rows if branch.required and branch.outcome in (joining.FAILED, joining.CANCELLED))
    if at.cause == USER_CANCEL and bad.outcome == joining.CANCELLED:
        return parallel.cancelled(at, rows)
    label = Task.objects.filter(pk=bad.task_id or 0).first()
    did = "failed" if bad.outcome == joining.FAILED else "was cancelled"
    words = f"“{label.label if label else bad.key}”, which the stage requires, {did}: {bad.error}"
    failing.fail(at.run, at.flow, at.visit, words, at.chain, at.cause)
    return "failed"


def _waits(at: Situation, rows: list[Branch]) -> str:
    """A required task was withdrawn: it stays required, what depends on it keeps waiting, and the step says so."""
    names = ", ".join(f"“{branch.key}”" for branch in rows if branch.required and branch.outcome == joining.WITHDRAWN)
    words = f"The due time of {names} passed, and the stage requires it. What depends on it keeps waiting."
    if at.visit.error != words:
        runs.write_visit(at.visit, error=words)
        runs.wait(at.run, at.visit, Phase.WAITING, at.chain, "required_withdrawn")
    return "required_withdrawn"

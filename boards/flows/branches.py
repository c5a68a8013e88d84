"""Works of which a visit has several: branches of a `parallel`, tasks of a `stage` or `loop`, steps of `on_failure`.

Each is a row. It ends when its task ends or its question is answered, under the run's lock; then whoever its step's
kind belongs to looks at all of them (`steps.registry.LOOKERS`).
"""

from __future__ import annotations

from typing import Any, Final

from django.db.models.functions import Now

from boards.errors import Refusal
from boards.flows import runs, works
from boards.flows.definition import FlowDefinition, StageTask, StepDefinition
from boards.flows.ending import answer_of, refused_words
from boards.flows.joining import CANCELLED, COMPLETED, FAILED, WITHDRAWN
from boards.flows.outcomes import ENDED_RUN, OVERTAKEN, is_over
from boards.flows.situation import Situation
from boards.flows.steps.registry import LOOKERS
from boards.models import Branch, FlowRun, Hold, Task, Visit
from boards.states import HoldState, Phase, RunStatus, Status

NOT_FILLED_IN: Final = "Nobody filled in the form before its due time."
FAILURE_KIND: Final = "on_failure"  # under which the failure steps' looker is registered
_OUTCOMES: Final = {Status.COMPLETED: COMPLETED, Status.ERRORED: FAILED, Status.CANCELLED: CANCELLED}


def start(
    run: FlowRun,
    flow: FlowDefinition,
    step: StepDefinition,
    visit: Visit,
    *,
    role: Branch.Role,
    position: int,
    round: int = 1,
) -> Branch:
    """Make the row of one nested step and begin its work. Raises TemplatingError and Refusal."""
    branch = Branch.objects.create(visit=visit, role=role, key=step.key, position=position, round=round)
    runs.write_branch(branch, started_at=Now(), **works.begin(run, flow, step, visit, branch))
    return branch


def row(visit: Visit, step: StepDefinition | StageTask, role: Branch.Role, position: int, **fields: Any) -> Branch:
    """Make the row of a work whose task is filed already."""
    named = {name: value for name, value in fields.items() if name != "due_at"}
    branch = Branch.objects.create(visit=visit, role=role, key=step.key, position=position, **named)
    runs.write_branch(branch, started_at=Now(), due_at=fields.get("due_at"))
    return branch


def end(branch: Branch, outcome: str, *, output: Any = None, error: str = "") -> None:
    runs.write_branch(branch, outcome=outcome, ended_at=Now(), phase=Phase.LEFT, output=output, error=error)


def of_task(at: Situation) -> Branch | None:
    """The branch whose task this trigger is about; None where it is the turn's own."""
    key = at.facts.get("task_key")
    if key is None or key == at.visit.task_id:
        return None
    return Branch.objects.filter(visit=at.visit, task=key).first()


def task_ended(at: Situation, branch: Branch) -> str:
    if not end_by_task(at, branch):
        return OVERTAKEN
    return _look(at, branch, completed=branch.outcome == COMPLETED)


def end_by_task(at: Situation, branch: Branch) -> bool:
    """Write how its task ended; False where that is known already, or is not so any more."""
    task = Task.objects.filter(pk=branch.task_id or 0).first()
    ending = at.facts.get("ending", "")
    if task is None or task.status != ending:
        return False
    completed = ending == Status.COMPLETED
    if branch.outcome == COMPLETED or (branch.outcome and not completed):
        return False
    if completed:
        end(branch, COMPLETED, output=task.output)
    else:
        words = task.error or ("It failed without saying why." if ending == Status.ERRORED else "It was cancelled.")
        end(branch, _OUTCOMES[Status(ending)], error=words)
    return True


def withdrawn(at: Situation, branch: Branch) -> str:
    """Its own due time passed and its task was withdrawn (spec: 05 section 4.5)."""
    task = Task.objects.filter(pk=branch.task_id or 0).first()
    if task is None or not task.withdrawn or branch.outcome:
        return OVERTAKEN
    end(branch, WITHDRAWN, error="The due time passed.")
    return _look(at, branch, completed=False)


def hold_closed(at: Situation, hold: Hold) -> str:
    branch = end_by_hold(at, hold)
    if branch is None:
        return OVERTAKEN
    return _look(at, branch, completed=branch.outcome == COMPLETED)


def end_by_hold(at: Situation, hold: Hold) -> Branch | None:
    """Write how its question was closed; None where it had ended."""
    branch = Branch.objects.filter(pk=hold.branch_id or 0, visit=at.visit).first()
    if branch is None or branch.outcome:
        return None
    if hold.state == HoldState.DISCARDED:
        end(branch, CANCELLED, error=hold.closed_reason)
    elif hold.kind == "input" and hold.state == HoldState.EXPIRED:
        end(branch, FAILED, error=NOT_FILLED_IN)
    elif hold.kind == "input":
        end(branch, COMPLETED, output=(hold.answer or {}).get("values"))
    else:
        output = answer_of(hold)
        yes = bool(output["approved"])
        end(branch, COMPLETED if yes else FAILED, output=output, error="" if yes else refused_words(output))
    return branch


def _look(at: Situation, branch: Branch, *, completed: bool) -> str:
    """Let the step's kind judge all its works, unless the step is over already."""
    if is_over(at.run, completed=completed):
        return ENDED_RUN
    in_failure = at.visit.phase == Phase.FAILURE
    if branch.role == Branch.Role.FAILURE:
        return LOOKERS[FAILURE_KIND](at) if in_failure else OVERTAKEN
    if at.step is None or at.step.kind not in LOOKERS or (in_failure and at.run.status == RunStatus.ACTIVE):
        return OVERTAKEN
    return LOOKERS[at.step.kind](at)


def reopen(at: Situation) -> None:
    """A step that had failed goes on: one of its works was retried from its page and completed after all."""
    if at.run.status == RunStatus.FAILED:
        runs.reopen(at.run, at.chain)
        runs.write_visit(at.visit, phase=Phase.WORKING, error="")


def outcome_of(error: Exception) -> str:
    """What a work that could not be begun says."""
    return error.sentence if isinstance(error, Refusal) else str(error)

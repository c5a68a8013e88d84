"""A stay, or one of its works, was withdrawn: what that does to the run (spec: 05 sections 4.3 and 4.5).

A handler of `advance`, inside its transaction. Answers the word that is stored with the operation.
"""

from __future__ import annotations

from typing import Final

from boards.flows import branches, due_times, failing, runs
from boards.flows.joining import OPEN, WITHDRAWN
from boards.flows.outcomes import ENDED_RUN, OVERTAKEN
from boards.flows.situation import Situation
from boards.models import Branch, Debt, Task
from boards.states import Phase, RunStatus

OTHERS_FIRST: Final = "others_first"
TIMEOUT: Final = "timeout"


def timed_out(at: Situation) -> str:
    """The task was withdrawn, its worker is gone, its questions are closed: the step fails with `timeout`.

    Where only one of several works was due, its step's kind judges what that does to the step.
    """
    task = Task.objects.filter(pk=at.facts["task_key"], visit=at.visit).first()
    branch = branches.of_task(at)
    if task is None or not task.withdrawn or (branch is None and at.visit.task_id != task.pk):
        return OVERTAKEN
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    if branch is not None and not _whole_stay(at, branch):
        return branches.withdrawn(at, branch)
    return _stay_is_over(at, branch)


def _whole_stay(at: Situation, branch: Branch) -> bool:
    """Whether the due time of the stay itself has passed, and not only that of this one work of it."""
    return branch.role != Branch.Role.FAILURE and due_times.is_over(at.visit)


def _stay_is_over(at: Situation, branch: Branch | None) -> str:
    """The step fails once: by its own task, or by the last of its works whose clean-up is done."""
    if at.visit.phase == Phase.FAILURE:
        return OVERTAKEN
    if branch is not None and branch.outcome == OPEN:
        branches.end(branch, WITHDRAWN, error="The due time passed.")
    if _others_owe(at):
        runs.write(at.run)
        return OTHERS_FIRST
    name = at.step.name if at.step else at.visit.step_key
    what = "its task was" if branch is None else "what it still had at work was"
    words = f"The due time of {name} passed, so {what} withdrawn."
    failing.fail(at.run, at.flow, at.visit, words, at.chain, TIMEOUT)
    return "failed"


def _others_owe(at: Situation) -> bool:
    owed = Debt.objects.filter(kind="flow_failure_steps", run=at.run, state=Debt.State.OWED, data__visit=at.visit.pk)
    return owed.exclude(pk=at.facts["debt"]).exists()

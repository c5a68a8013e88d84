"""A stay, or one of its works, was withdrawn: what that does to the run (spec: 05 sections 4.3 and 4.5).

A handler of `advance`, inside its transaction. Answers the word that is stored with the operation.
"""

from __future__ import annotations

from typing import Final

from boards.flows import branches, failing
from boards.flows.outcomes import ENDED_RUN, OVERTAKEN
from boards.flows.situation import Situation
from boards.models import Task
from boards.states import RunStatus

TIMEOUT: Final = "timeout"


def timed_out(at: Situation) -> str:
    """The task was withdrawn, its worker is gone, its questions are closed: the step fails with `timeout`."""
    task = Task.objects.filter(pk=at.facts["task_key"], visit=at.visit).first()
    if task is None or not task.withdrawn:
        return OVERTAKEN
    if branch := branches.of_task(at):
        return branches.withdrawn(at, branch)
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    if at.visit.task_id != task.pk:
        return OVERTAKEN
    failing.fail(at.run, at.flow, at.visit, due_words(at), at.chain, TIMEOUT)
    return "failed"


def due_words(at: Situation) -> str:
    name = at.step.name if at.step else at.visit.step_key
    return f"The due time of {name} passed, so its task was withdrawn."

"""A stay, or one of its works, was withdrawn: what that does to the run (spec: 05 sections 4.3 and 4.5).

A handler of `advance`, inside its transaction. Answers the word that is stored with the operation.
"""

from __future__ import annotations

from typing import Final

from boards.flows import runs
from boards.flows.situation import Situation
from boards.models import Debt, Task
from boards.states import RunStatus

OTHERS_FIRST: Final = "others_first"
TIMEOUT: Final = "timeout"


def timed_out(at: Situation) -> str:
    """The task was withdrawn, its worker is gone, its questions are closed: the step fails with `timeout`."""
    task = Task.objects.filter(pk=at.facts["task_key"], visit=at.visit).first()
    if task is None or not task.withdrawn:
        return "overtaken"
    if at.run.status != RunStatus.ACTIVE:
        return "ended_run"
    if at.visit.task_id != task.pk:
        return "overtaken"
    runs.fail_step(at.run, at.visit, due_words(at), at.chain, TIMEOUT)
    return "failed"


def due_words(at: Situation) -> str:
    name = at.step.name if at.step else at.visit.step_key
    return f"The due time of {name} passed, so its task was withdrawn."


def others_owe(at: Situation) -> bool:
    """Whether another work of the same stay is still being cleaned up; the last one makes the step fail."""
    owed = Debt.objects.filter(kind="flow_failure_steps", run=at.run, state=Debt.State.OWED, data__visit=at.visit.pk)
    return owed.exclude(pk=at.facts["debt"]).exists()

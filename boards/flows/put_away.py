"""What reaches a run that is in the archive: it is kept on its rows, and moves nothing (spec: 05 sections 2.7 and 3).

Works inside the transaction of `advance`, under the run's lock. A person takes the run out first.
"""

from __future__ import annotations

from typing import Final

from boards.flows import branches, runs
from boards.flows.ending import answer_of
from boards.flows.situation import Situation
from boards.models import Hold, Task
from boards.states import HoldState, Phase, Status

ARCHIVED: Final = "archived"


def keep(at: Situation) -> str:
    """Keep what came of the stay's work or question, and let it pause where it stands."""
    if at.facts.get("task_key") is not None:
        _keep_task(at)
    elif at.facts.get("hold") is not None:
        _keep_answer(at)
    if at.visit.left_at is None and at.visit.phase != Phase.FAILURE:
        runs.write_visit(at.visit, phase=Phase.PAUSED)
    return ARCHIVED


def _keep_task(at: Situation) -> None:
    branch = branches.of_task(at)
    if branch is not None:
        branches.end_by_task(at, branch)
        return
    task = Task.objects.filter(pk=at.facts["task_key"], status=Status.COMPLETED).first()
    if task is not None and task.pk == at.visit.task_id and at.visit.left_at is None:
        runs.write_visit(at.visit, output=task.output)


def _keep_answer(at: Situation) -> None:
    hold = Hold.objects.filter(pk=int(at.facts["hold"]), visit=at.visit).exclude(state=HoldState.OPEN).first()
    if hold is None:
        return
    if hold.branch_id is not None:
        branches.end_by_hold(at, hold)
    elif hold.state == HoldState.ANSWERED and at.visit.left_at is None:
        output = (hold.answer or {}).get("values") if hold.kind == "input" else answer_of(hold)
        runs.write_visit(at.visit, output=output)

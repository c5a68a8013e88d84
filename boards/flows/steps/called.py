"""What the end of a called run does to its caller's step; a handler of `advance` (spec: 05 section 2.1)."""

from __future__ import annotations

from typing import Any

from boards.flows import branches, failing, runs
from boards.flows.decisions import How, Turn
from boards.flows.ending import end_turn
from boards.flows.outcomes import ENDED_RUN, OVERTAKEN, is_over
from boards.flows.situation import Situation
from boards.models import FlowRun, StepChange
from boards.states import RunStatus


def child_ended(at: Situation) -> str:
    """Completed: its data and outputs are the step's output. Failed or cancelled: the step fails with it."""
    child = FlowRun.objects.filter(pk=int(at.facts["child"]), called_by=at.visit).first()
    if child is None or child.status != at.facts["ended"]:
        return OVERTAKEN
    completed = child.status == RunStatus.COMPLETED
    if is_over(at.run, completed=completed):
        return ENDED_RUN
    if not completed:
        did = "failed" if child.status == RunStatus.FAILED else "was cancelled"
        words = f"The run “{child.name}” that it called {did}: {child.error}"
        failing.fail(at.run, at.flow, at.visit, words, at.chain, at.cause)
        return "failed"
    branches.reopen(at)
    runs.write_visit(at.visit, output=_output(child), error="")
    return end_turn(at, Turn(How.PASSED), child.name, StepChange.Trigger.CHILDREN_COMPLETED)


def _output(child: FlowRun) -> dict[str, Any]:
    """{"run", "data", "steps": {key: its last output}}."""
    outputs = child.visits.filter(output__isnull=False).order_by("pk").values_list("step_key", "output")
    return {"run": child.number, "data": child.data, "steps": dict(outputs)}

"""A step fails: its visit says why, what it still has at work is ended, and its failure steps or its run follow.

Works inside the transaction that advances the run, under its lock. The failure steps themselves are begun by an advance
of their own (`boards.flows.failure_steps`): the failing one may have locked what stands right of them.
"""

from __future__ import annotations

from django.db.models import Max
from django.db.models.functions import Now

from boards.actors import Chain
from boards.flows import afterwards, runs
from boards.flows.definition import FlowDefinition
from boards.models import Branch, FlowRun, Visit
from boards.states import Phase, RunStatus
from boards.stored_text import clean_text

FAILURE_STEPS = "failure_steps"  # the trigger that begins the next failure step, or does what follows them
CAUSE = "failure"


def fail(run: FlowRun, flow: FlowDefinition, visit: Visit, sentence: str, chain: Chain, cause: str = "") -> None:
    """The step fails. With `on_failure` that goes on first; else the run fails, and keeps its place."""
    sentence = clean_text(sentence)  # a template may have made it
    afterwards.clear_later(run, visit, CAUSE, f"The step failed: {sentence}"[:2000])
    runs.write_visit(visit, phase=Phase.FAILURE, error=sentence)
    step = flow.step(visit.step_key)
    handled = step.on_failure if step is not None else None
    if handled is None or (not handled.steps and handled.then == "fail"):
        runs.write(run, status=RunStatus.FAILED, completed_at=Now(), error=sentence, signal=None)
        runs.note(run, chain, "step.failed", "run.failed", visit=visit, cause=cause, text=sentence[:2000])
        afterwards.tell_parent(run)
        return
    runs.write(run, signal=None)
    runs.note(run, chain, "step.failed", visit=visit, cause=cause, text=sentence[:2000])
    last: int | None = visit.branches.filter(role=Branch.Role.FAILURE).aggregate(last=Max("round"))["last"]
    afterwards.advance_later(run, visit, FAILURE_STEPS, f"failure:{run.revision}", round=(last or 0) + 1)


def fail_run(run: FlowRun, visit: Visit, sentence: str, chain: Chain, cause: str = "") -> None:
    """The run fails where it stands: its step failed, and nothing more is to be tried."""
    afterwards.clear_later(run, visit, CAUSE, f"The run failed: {sentence}"[:2000])
    runs.write(run, status=RunStatus.FAILED, completed_at=Now(), error=sentence, signal=None)
    runs.note(run, chain, "run.failed", visit=visit, cause=cause, text=sentence[:2000])
    afterwards.tell_parent(run)

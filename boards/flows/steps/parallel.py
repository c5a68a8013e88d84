"""`parallel`: several nested steps at once, joined by all, any or some of them (spec: 05 section 2.11).

The card stays in the step's column. A branch is a row; its ending looks at all of them here, under the run's lock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from boards.actors import Chain
from boards.flows import afterwards, branches, decisions, failing, joining, runs, works
from boards.flows.decisions import USER_CANCEL, How, Turn
from boards.flows.definition import ASKING_KINDS, FlowDefinition, StepDefinition
from boards.flows.ending import end_turn
from boards.flows.joining import Joined
from boards.flows.situation import Situation, open_question
from boards.flows.steps.registry import looks, starts
from boards.models import Branch, FlowRun, StepChange, Visit
from boards.states import Phase, RunStatus


@starts("parallel")
def start(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, chain: Chain) -> dict[str, Any]:
    """Begin every branch. Tasks are filed before anything is asked, since they are locked left of questions."""
    placed = list(enumerate(step.branches))
    filing = [(place, nested) for place, nested in placed if nested.files_task]
    filed = works.file_all(run, flow, [nested for _, nested in filing], visit) if filing else []
    for (place, nested), task in zip(filing, filed, strict=True):
        begun = {"phase": Phase.WORKING, "task": task, "due_at": works.due_in(nested.timeout_ms)}
        branches.row(visit, nested, Branch.Role.BRANCH, place, **begun)
    for place, nested in placed:
        if not nested.files_task:
            told = replace(nested, timeout_ms=_sooner(nested, step)) if nested.kind in ASKING_KINDS else nested
            branches.start(run, flow, told, visit, role=Branch.Role.BRANCH, position=place)
    return {"phase": Phase.WORKING}


def _sooner(nested: StepDefinition, step: StepDefinition) -> int | None:
    """Nothing of a question can be withdrawn, so past the due time of the whole step it expires."""
    spans = [span for span in (nested.timeout_ms, step.timeout_ms) if span is not None]
    return min(spans, default=None)


@looks("parallel")
def look(at: Situation) -> str:
    assert at.step is not None  # whoever asks has seen its kind
    rows = list(at.visit.branches.filter(role=Branch.Role.BRANCH))
    match joining.joined(at.step.join, [branch.outcome for branch in rows]):
        case Joined.MET:
            return _met(at, rows)
        case Joined.OPEN:
            return note_branch(at)
    return _missed(at, rows)


def _met(at: Situation, rows: list[Branch]) -> str:
    branches.reopen(at)
    runs.write_visit(at.visit, output={branch.key: branch.output for branch in rows if branch.outcome == "completed"})
    afterwards.clear_later(at.run, at.visit, "join", "enough branches have completed.")
    return end_turn(at, Turn(How.PASSED), at.run.flow.name, StepChange.Trigger.CHILDREN_COMPLETED)


def _missed(at: Situation, rows: list[Branch]) -> str:
    """Too many branches ended without completing. One that a person cancelled pauses the run, else the step fails."""
    if at.run.status == RunStatus.FAILED:
        return "failed"  # it has failed with it before; a branch that is retried does not make the others good
    bad = next((branch for branch in rows if branch.outcome in (joining.FAILED, joining.WITHDRAWN)), None)
    if bad is None:
        return cancelled(at, rows)
    names = {step.key: step.name for step in at.step.branches} if at.step is not None else {}
    cause = "timeout" if bad.outcome == joining.WITHDRAWN else at.cause
    words = f"The branch {names.get(bad.key, bad.key)} did not complete: {bad.error}"
    failing.fail(at.run, at.flow, at.visit, words, at.chain, cause)
    return "failed"


def cancelled(at: Situation, rows: list[Branch]) -> str:
    """Works were cancelled; a cancel of the whole turn is judged once the last of them has ended."""
    if at.cause == USER_CANCEL and any(not branch.outcome for branch in rows):
        return note_branch(at)
    afterwards.clear_later(at.run, at.visit, failing.CAUSE, "another branch was cancelled.")
    turn = Turn(decisions.ended_how("cancelled", at.cause), open_question(at))
    return end_turn(at, turn, at.chain.name, StepChange.Trigger.ON_TURN_COMPLETE)


def note_branch(at: Situation) -> str:
    """The step goes on with its other works; the pages hear that one has ended."""
    runs.write(at.run)
    runs.note(at.run, at.chain, "step.branch_ended", visit=at.visit)
    return "waits for others"

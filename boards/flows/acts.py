"""What a person asks of a run: mark complete and advance, move, run again (spec: 05 sections 2.1, 2.6-2.7).

Handlers of `advance`, inside its transaction. Each answers the word that is stored with the operation, or raises
IllegalRunMove with a sentence.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from boards.actors import Chain
from boards.flows import approving, decisions, runs
from boards.flows.decisions import How, Turn
from boards.flows.definition import ASKING_KINDS, FlowDefinition, StepDefinition
from boards.flows.entering import Arrival, changed_data, complete, go
from boards.flows.refusals import IllegalRunMove
from boards.flows.situation import STARTED, Situation, matcher, move_to, open_question, signal_of, working
from boards.flows.stopping import answer_settles, refuse_stopping
from boards.flows.templating import TemplatingError
from boards.models import FlowRun, StepChange
from boards.states import LIVE, Phase, RunStatus, Status

SAME_STEP: Final = "same_step"
CANCEL_AND_MOVE: Final = "cancel_and_move"  # what a refusal offers where the task still works


def mark_complete(at: Situation) -> str:
    """A person says that the step is complete: as its natural end, the signal gate met; else on by position.

    Behind the last step nothing follows: there the run is complete.
    """
    step = idle_step(at, "marked complete")
    if at.run.status != RunStatus.ACTIVE:
        label = RunStatus(at.run.status).label.lower()
        raise IllegalRunMove(f"The run is {label}, so nothing is left to mark complete.")
    if step.kind in ASKING_KINDS:
        what = "an approval" if step.kind == "approval" else "this step"
        raise IllegalRunMove(f"Only an answer completes {what}. Answer it, run it again, or move the run.")
    turn = Turn(How.MARKED, open_question(at), signal=signal_of(at.run, at.visit) is not None)
    if turn.open_question:
        raise IllegalRunMove("A question of this step is still open. Answer it first.")
    try:
        verdict = decisions.turn_complete(at.flow, step, turn, matcher(at))
        signal = signal_of(at.run, at.visit) if verdict.uses_signal else None
        runs.write(at.run, data=changed_data(at.run, at.flow, verdict.side_effects, at.visit.output))
        if verdict.asks is not None:
            return approving.ask(at, verdict.asks)
        target = decisions.marked_target(at.flow, step, verdict)
        if target is not None:
            return move_to(at, target, at.chain.name, StepChange.Trigger.ON_TURN_COMPLETE, signal)
    except TemplatingError as error:
        raise IllegalRunMove(str(error)) from None
    complete(at.run, at.visit, at.chain)
    return "completed"


def move(at: Situation) -> str:
    """A person moves the card. A move within the step is an ordering only, and changes nothing here."""
    target = move_target(at.run, at.flow, at.facts["step"])
    if target.key == at.visit.step_key:
        return SAME_STEP
    refuse_stopping(at.visit)
    if not at.facts.get("cancel_turn"):  # else what still works is ended behind the move
        _refuse_working(at, "moved", STARTED)
    try:
        return move_to(at, target.key, at.chain.name, StepChange.Trigger.MANUAL)
    except TemplatingError as error:
        raise IllegalRunMove(str(error)) from None


def move_queued(run: FlowRun, flow: FlowDefinition, chain: Chain, facts: dict[str, Any]) -> str:
    """A person moves a card that still waits for a place: it leaves that queue, and nothing of its step was run."""
    target = move_target(run, flow, facts["step"])
    if target.key == run.queued_step:
        return SAME_STEP
    go(run, flow, Arrival(target, chain, chain.name, StepChange.Trigger.MANUAL))
    return f"moved to {target.key}"


def move_target(run: FlowRun, flow: FlowDefinition, key: str) -> StepDefinition:
    """The step that a person may move the run to. Raises IllegalRunMove with the reason, whatever works there."""
    target = flow.step(key)
    if target is None:
        raise IllegalRunMove("This run's version of the flow has no such step.")
    here = flow.step(run.queued_step or run.step_key)
    status, is_archived = RunStatus(run.status), run.archived_at is not None
    if refusal := decisions.move_refusal(flow, here, target, status, is_archived=is_archived):
        raise IllegalRunMove(refusal)
    return target


def run_again(at: Situation) -> str:
    """Enter the same step anew: a new visit, with a new task or question."""
    step = idle_step(at, "run again")
    if at.run.status not in (RunStatus.ACTIVE, RunStatus.FAILED):
        raise IllegalRunMove(f"The run is {RunStatus(at.run.status).label.lower()}. Start it again instead.")
    if answer_settles(at.visit):
        raise IllegalRunMove("The answer to this step still settles; the run goes on by itself then.")
    if at.visit.phase == Phase.WAITING and step.kind in ASKING_KINDS and open_question(at):
        raise IllegalRunMove("This step waits for an answer; there is nothing to run again.")
    go(at.run, at.flow, Arrival(step, at.chain, at.chain.name, None, cause=at.cause))
    return "entered again"


def idle_step(at: Situation, what: str) -> StepDefinition:
    """The current step, where nothing of it works at the moment."""
    if at.run.archived_at is not None:
        raise IllegalRunMove(decisions.ARCHIVED)
    if at.step is None:
        raise IllegalRunMove("The step of this run can no longer be read. Move the run to another step.")
    _refuse_working(at, what)
    return at.step


def _refuse_working(at: Situation, what: str, statuses: Collection[str] = LIVE) -> None:
    refuse_stopping(at.visit)
    task = working(at.visit, statuses)
    if task is not None:
        offer = CANCEL_AND_MOVE if what == "moved" else ""
        sentence = f"Its task is {Status(task.status).label.lower()}, so the run cannot be {what} yet. "
        raise IllegalRunMove(sentence + "Cancel the turn first.", task=task.public_id, offer=offer)
    child = at.visit.child_runs.filter(status=RunStatus.ACTIVE).first()
    if child is not None:
        raise IllegalRunMove(f"It waits for the run “{child.name}”, so it cannot be {what} yet. Cancel that run first.")

"""What a person does to a run that went wrong: skip a step, complete it by hand, run it again from an earlier one.

Handlers of `advance`, inside its transaction. Each answers the word that is stored with the operation, or raises
IllegalRunMove with a sentence. A question that is open is never passed over: it is answered, or the run is moved.
"""

from __future__ import annotations

from boards.flows import approving, decisions, runs
from boards.flows.acts import idle_step
from boards.flows.decisions import How, Turn
from boards.flows.definition import ASKING_KINDS, StepDefinition
from boards.flows.entering import Arrival, changed_data, complete, go
from boards.flows.refusals import IllegalRunMove
from boards.flows.situation import Situation, matcher, move_to, open_question
from boards.flows.templating import TemplatingError
from boards.models import StepChange, TranscriptItem
from boards.states import RunStatus


def skip(at: Situation) -> str:
    """Go on to the next step without this one's work; the reason stands on the visit, in the log and the transcript."""
    step = _undone(at, "skipped")
    reason = str(at.facts["reason"])
    words = f"{at.chain.name} skipped {step.name}: {reason}"
    earlier = f" It had failed: {at.visit.error}" if at.visit.error else ""
    runs.write_visit(at.visit, error=words + earlier)
    runs.note(at.run, at.chain, "step.skipped", visit=at.visit, text=reason[:2000])
    _say(at, words)
    return _onward(at, step)


def complete_by_hand(at: Situation) -> str:
    """A person hands in what the step should have: it counts like the turn's own result."""
    step = _undone(at, "completed by hand")
    runs.reopen(at.run, at.chain)
    runs.write_visit(at.visit, output=at.facts["output"], error="")
    runs.note(at.run, at.chain, "step.completed_by_hand", visit=at.visit)
    _say(at, f"{at.chain.name} completed {step.name} by hand.")
    try:
        verdict = decisions.turn_complete(at.flow, step, Turn(How.MARKED), matcher(at))
        runs.write(at.run, data=changed_data(at.run, at.flow, verdict.side_effects, at.visit.output))
        if verdict.asks is not None:
            return approving.ask(at, verdict.asks)
    except TemplatingError as error:
        raise IllegalRunMove(str(error)) from None
    return _onward(at, step, decisions.marked_target(at.flow, step, verdict))


def run_from(at: Situation) -> str:
    """Enter a step anew in which the run has been before; what was handed in since stays to be read."""
    target = at.flow.step(at.facts["step"])
    if target is None:
        raise IllegalRunMove("This run's version of the flow has no such step.")
    if at.run.status == RunStatus.CANCELLED:
        raise IllegalRunMove("The run was cancelled. Start it again instead.")
    if at.run.archived_at is not None:
        raise IllegalRunMove("The run is archived. Take it out of the archive first.")
    if not at.run.visits.filter(step_key=target.key).exists():
        raise IllegalRunMove(f"The run has not been in {target.name} yet. Move it there instead.")
    if at.step is not None:
        idle_step(at, "run again")
    change = None if target.key == at.visit.step_key else StepChange.Trigger.MANUAL
    _say(at, f"{at.chain.name} runs it again from {target.name}.")
    try:
        go(at.run, at.flow, Arrival(target, at.chain, at.chain.name, change, cause=at.cause))
    except TemplatingError as error:
        raise IllegalRunMove(str(error)) from None
    return f"again from {target.key}"


def _undone(at: Situation, what: str) -> StepDefinition:
    """The current step, where nothing of it works and no person is asked."""
    step = idle_step(at, what)
    if at.run.status not in (RunStatus.ACTIVE, RunStatus.FAILED):
        label = RunStatus(at.run.status).label.lower()
        raise IllegalRunMove(f"The run is {label}, so its step cannot be {what}.")
    if step.kind in ASKING_KINDS:
        raise IllegalRunMove(f"Only an answer completes this step, so it cannot be {what}. Answer it, or move the run.")
    if open_question(at):
        raise IllegalRunMove("A question of this step is still open. Answer it first.")
    return step


def _onward(at: Situation, step: StepDefinition, target: str | None = None) -> str:
    """To the target, else on by position; behind the last step the run is complete."""
    follower = at.flow.neighbour(step, 1)
    to = target or (follower.key if follower else None)
    try:
        if to is not None:
            return move_to(at, to, at.chain.name, StepChange.Trigger.MANUAL)
    except TemplatingError as error:
        raise IllegalRunMove(str(error)) from None
    runs.reopen(at.run, at.chain)
    complete(at.run, at.visit, at.chain)
    return "completed"


def _say(at: Situation, text: str) -> None:
    kind = TranscriptItem.Kind.STATUS
    TranscriptItem.objects.create(session_id=at.run.session_id, kind=kind, text=text)

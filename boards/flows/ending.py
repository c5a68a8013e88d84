"""The end of a turn: ask for the verdict, and write it: move on, ask before the move, fail, or wait (spec: 05, 2.4).

Works inside the transaction of `advance`, under the run's lock, for every kind of step.
"""

from __future__ import annotations

from typing import Any, Final

from boards.errors import Refusal
from boards.flows import approving, decisions, failing, runs, wip
from boards.flows.decisions import Turn, Verdict, Why
from boards.flows.entering import changed_data
from boards.flows.situation import Situation, matcher, move_to, signal_of
from boards.flows.templating import TemplatingError
from boards.models import StepChange, Visit
from boards.states import Phase, Status

_PAUSES: Final = {Why.CANCEL_PAUSES, Why.OTHER_STOP}


def end_turn(at: Situation, turn: Turn, actor: str, change: StepChange.Trigger, *, target: str | None = None) -> str:
    """Ask for the verdict on the turn and write it. `target`: what a `choice` has chosen; it comes before the rest."""
    try:
        verdict = decisions.turn_complete(at.flow, at.step, turn, matcher(at))
        new_data = changed_data(at.run, at.flow, verdict.side_effects, at.visit.output)
        signal = signal_of(at.run, at.visit) if verdict.uses_signal else None
        fields: dict[str, Any] = {"signal": None} if verdict.clears_signal and verdict.asks is None else {}
        moves = target is not None or (verdict.target is not None and verdict.asks is None)
        changes = new_data != at.run.data or (fields and at.run.signal is not None)
        if changes or not moves:  # a move writes the run itself
            runs.write(at.run, data=new_data, **fields)
        if target is not None:
            return move_to(at, target, actor, change, signal)
        if verdict.asks is not None:
            return approving.ask(at, verdict.asks)
        if verdict.target is not None:
            return move_to(at, verdict.target, actor, change, signal)
    except (TemplatingError, Refusal) as error:
        failing.fail(at.run, at.flow, at.visit, str(error), at.chain, at.cause)
        return "failed"
    if verdict.why is Why.REFUSED:
        failing.fail(at.run, at.flow, at.visit, _refused_words(at.visit), at.chain, at.cause)
        return verdict.why.value
    return stay(at, verdict)


def stay(at: Situation, verdict: Verdict) -> str:
    """Nothing leads on: the run waits in its step, or is paused there where its turn was stopped."""
    stopped = at.facts.get("ending") == Status.CANCELLED
    phase = Phase.PAUSED if verdict.why in _PAUSES or stopped else Phase.WAITING
    runs.wait(at.run, at.visit, phase, at.chain, verdict.why.value)
    wip.owe_waits(at.run)
    return verdict.why.value


def answer_of(hold: Any) -> dict[str, Any]:
    """What a person's answer hands in: {"approved", "choice", "note", "by", "draft"?} of an approval."""
    answer = hold.answer or {}
    yes = hold.state == "answered" and answer.get("choice") == "approve"
    output = {
        "approved": yes,
        "choice": answer.get("choice", ""),
        "note": answer.get("text", ""),
        "by": hold.answered_by_name,
    }
    if yes and hold.draft is not None:
        output["draft"] = hold.draft  # what was approved, for the steps that act on it
    return output


def refused_words(output: dict[str, Any]) -> str:
    """Why an approval is a no, as a sentence."""
    if output.get("choice") != "reject" or output.get("by") == "the due time":
        return "Nobody answered before the due time, which reads as a no."
    words = f": {output['note']}" if output.get("note") else "."
    return f"{output.get('by') or 'Somebody'} rejected it{words}"


def _refused_words(visit: Visit) -> str:
    return refused_words(visit.output or {})

"""What became of a hold, in plain sentences: for refusals, transcripts and those who come late. Pure."""

from __future__ import annotations

from boards.models import Hold
from boards.people import decisions
from boards.states import HoldKind, HoldState

_PAST = {
    "approve": "approved",
    "reject": "rejected",
    "send": "sent",
    "discard": "discarded",
    "request_changes": "asked for changes to",
}


def closed_words(hold: Hold) -> str:
    """Who closed it, how and when, in one plain sentence; of a flow's step also that the flow has gone on."""
    when = f"{hold.answered_at:%H:%M} UTC" if hold.answered_at else "just now"
    who = hold.answered_by_name or "Somebody"
    gone_on = "; the flow has gone on." if hold.visit_id else "."
    if hold.state == HoldState.EXPIRED:
        return f"Nobody answered in time; it was closed at {when}."
    if hold.state == HoldState.DISCARDED:
        return f"{who} closed this at {when}: {hold.closed_reason or 'it is no longer asked.'}"
    choice = (hold.answer or {}).get("choice", "")
    if past := _PAST.get(choice) if hold.kind in decisions.BOUND else None:
        return f"{who} {past} this at {when}{gone_on}"
    if hold.kind == HoldKind.INPUT:
        return f"{who} filled in the form at {when}{gone_on}"
    label = dict(decisions.choices_of(hold)).get(choice, choice) or (hold.answer or {}).get("text", "")[:80]
    return f"{who} answered “{label}” at {when}{gone_on}"


def answer_line(hold: Hold) -> str:
    """The answer as one line of a transcript."""
    answer = hold.answer or {}
    if "values" in answer:
        return "Filled in the form."
    label = dict(decisions.choices_of(hold)).get(answer.get("choice", ""), "")
    words = answer.get("text", "")
    return ": ".join(part for part in (label, words) if part) or hold.closed_reason or "Closed."

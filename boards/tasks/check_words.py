"""What became of a result while somebody was still reading it, in plain sentences (spec: 04 sections 2.1 and 5).

Reads the event log; decides and writes nothing.
"""

from __future__ import annotations

from typing import Final

from boards.models import Event, Task
from boards.states import Status, Verb

_ENDS: Final = ("task.checked", "task.cancelled", "task.withdrawn", "task.skipped", "task.errored")
_PAST: Final = {
    "task.cancelled": "cancelled this",
    "task.withdrawn": "withdrew this, since its due time passed,",
    "task.skipped": "skipped this",
    "task.errored": "ended this",
}


def decided_words(task: Task, attempt: int) -> str:
    """Who took the hand-in of `attempt` off the list, what they did and when: "Ben sent this back at 14:02 UTC." """
    event = _last(task, attempt)
    if event is None:
        return f"This is {Status(task.status).label} already."
    said = f"{_who(event)} {_did(event)} at {event.at:%H:%M} UTC"
    words = str(event.data.get("text", "")).strip()
    return f"{said}: “{words[:200]}”." if words and event.kind == "task.checked" else f"{said}."


def is_repeat(task: Task, attempt: int, verb: Verb, user_id: int | None, words: str) -> bool:
    """Whether the same person has said exactly this of that hand-in already: a form that was sent twice."""
    event = _last(task, attempt)
    if event is None or event.kind != "task.checked" or user_id is None:
        return False
    last = event.chain[-1] if event.chain else {}
    same = last.get("kind") == "person" and str(last.get("id")) == str(user_id)
    return same and _verdict(event) is verb and str(event.data.get("text", "")) == words[:2000]


def _last(task: Task, attempt: int) -> Event | None:
    return Event.objects.filter(task=task.pk, attempt=attempt, kind__in=_ENDS).order_by("-pk").first()


def _verdict(event: Event) -> Verb:
    return Verb.ACCEPT if event.data.get("verdict") == "accepted" else Verb.SEND_BACK


def _did(event: Event) -> str:
    if event.kind != "task.checked":
        return _PAST[event.kind]
    return "accepted this" if _verdict(event) is Verb.ACCEPT else "sent this back"


def _who(event: Event) -> str:
    """Whoever decided: an agent's verdict is carried out by a service, which stands behind it in the chain."""
    hops = event.chain or [{}]
    last = hops[0] if hops[-1].get("kind") == "service" else hops[-1]
    return str(last.get("name", "")) or "Somebody"

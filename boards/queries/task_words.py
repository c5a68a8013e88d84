"""Says in words what an event of a task's log records (spec: 07 section 1.1); pure.

Data and kinds are the engine's; the wording is made here only. A kind that this module does not know is still shown,
by its name, so that the log never hides a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from boards.models import Event
from boards.states import Status

_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class EventLine:
    """One line of the log as the page shows it. `tone` is the end of a `st--` class, or ""."""

    key: int
    at: datetime
    actor: str
    phrase: str
    icon: str
    tone: str = ""
    fold: str = ""  # of lines that are one as long as another with the same name comes

    @property
    def classes(self) -> str:
        return f"st--{self.tone}" if self.tone else ""


def event_words(event: Event) -> str:
    """One sentence about any kind of event, without its time: "writer handed in attempt 2"."""
    line = event_line(event)
    return f"{line.actor} {line.phrase}".strip()


def event_line(event: Event, reader: int | None = None) -> EventLine:
    """The parts of the sentence; `reader`: the user id who is called "You"."""
    family = event.kind.partition(".")[0]
    words, icon, tone = (
        _SENT_BACK if _is_sent_back(event) else _KINDS.get(event.kind) or _FAMILIES.get(family) or _OTHER
    )
    fold = f"reports-{event.attempt}" if is_report(event) else ""
    return EventLine(event.pk, event.at, _actor(event, reader), words(event), icon, tone, fold)


def is_report(event: Event) -> bool:
    """Whether it only says that there was progress, as a worker may every second."""
    return event.kind == "task.progressed" and not event.data.get("kept_open_by")


def _is_sent_back(event: Event) -> bool:
    return event.kind == "task.checked" and not _is_accepted(event)


def check_words(event: Event, reader: int | None = None) -> str:
    """What the checker did, as the end of a sentence: "sent back by Anna", "accepted by you"."""
    actor = _actor(event, reader)
    done = "accepted" if _is_accepted(event) else "sent back"
    return f"{done} by {'you' if actor == 'You' else actor}"


def _actor(event: Event, reader: int | None) -> str:
    if not event.chain:
        return "Orchestra"
    last = event.chain[-1]
    if reader is not None and last.get("kind") == "person" and str(last.get("id")) == str(reader):
        return "You"
    if last.get("kind") == "service":
        return _SERVICES.get(str(last.get("id")), str(last.get("name", "")))
    name, first = str(last.get("name", "")), event.chain[0]
    if last.get("kind") == "agent" and first.get("kind") == "person" and first is not last:
        return f"{name} for {first.get('name', '')}"
    return name


_SERVICES: Final[Mapping[str, str]] = {
    "drain": "The drain",
    "sweeper": "The sweeper",
    "flows": "The flow",
    "operator": "An operator at the command line",
    "demo": "The demo",
}


def _quoted(value: Any) -> str:
    text = " ".join(str(value or "").split())
    if text.startswith("“"):
        return text[:_LONGEST]  # a sentence that quotes already
    return f"“{text[:_LONGEST]}{'…' if len(text) > _LONGEST else ''}”" if text else ""


def _after(value: Any) -> str:
    """`: “words”` for a text, nothing without one."""
    return f": {_quoted(value)}" if str(value or "").strip() else ""


def _first(event: Event, *names: str) -> Any:
    return next((event.data[name] for name in names if event.data.get(name) not in (None, "", [], {})), "")


def _attempt(event: Event) -> str:
    return f"attempt {event.attempt}" if event.attempt else "it"


def _said(phrase: str, *names: str) -> Callable[[Event], str]:
    """A phrase, followed by the first of the event's texts that is there."""
    return lambda event: phrase + _after(_first(event, *names))


def _filed(event: Event) -> str:
    held = " and held it" if event.to_status == Status.HELD else ""
    run = _first(event, "run_name", "run")
    root = _first(event, "follow_up_of")
    chain = f" as a follow-up of {root}" if root else ""
    return f"filed it{chain}{f' from the run {_quoted(run)}' if run else ''}{held}"


def _released(event: Event) -> str:
    to = _first(event, "assignee")
    return f"released it to {to}" if to else "released it"


def _claimed(event: Event) -> str:
    if event.data.get("lapsed") or event.from_status == Status.IN_PROGRESS:
        return f"took it over as {_attempt(event)}, since the worker before was lost"
    return f"started {_attempt(event)}"


def _checked(event: Event) -> str:
    words = _first(event, "text", "words")
    return f"accepted it{_after(words)}" if _is_accepted(event) else f"sent it back{_after(words)}"


def _is_accepted(event: Event) -> bool:
    return event.data.get("verdict") == "accepted" or event.to_status == Status.COMPLETED


def _errored(event: Event) -> str:
    error = _after(_first(event, "text", "error"))
    if event.to_status == Status.PENDING:
        return f"failed in {_attempt(event)}, which is tried again{error}"
    if not event.chain or event.chain[-1].get("kind") == "service":
        return f"settled it as Stuck{error}"
    return f"failed for good in {_attempt(event)}{error}"


def _cancelled(event: Event) -> str:
    reason = _after(_first(event, "text", "reason"))
    if _first(event, "via") == "cascade" or event.cause.startswith("cascade"):
        return f"cancelled it, since a task it depends on ended{reason}"
    return f"cancelled it{reason}"


def _retried(event: Event) -> str:
    return (
        "retried it, together with the tasks that depend on it" if event.data.get("with_dependents") else "retried it"
    )


def _retry_requested(event: Event) -> str:
    return f"had it retried with {_first(event, 'with')}" if _first(event, "with") else "had it retried"


def _edited(event: Event) -> str:
    if without := event.data.get("start_anyway_without"):
        return f"let it start without {_plain(without)}"
    fields = _first(event, "fields", "changed")
    names = ", ".join(str(name).replace("_", " ") for name in fields) if isinstance(fields, (list, dict)) else ""
    return f"changed {names}" if names else "edited it"


def _changed(what: str, *names: str) -> Callable[[Event], str]:
    """`changed the priority from 0 to 5`, with as much of it as the event knows."""

    def words(event: Event) -> str:
        before, after = event.data.get("from"), _first(event, "to", *names)
        start = f" from {_plain(before)}" if before not in (None, "") else ""
        return f"changed {what}{start} to {_plain(after)}" if after not in (None, "") else f"changed {what}"

    return words


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _hold(verb: str, *names: str) -> Callable[[Event], str]:
    def words(event: Event) -> str:
        about = _quoted(_first(event, "title", "prompt")) or "a question"
        return f"{verb} {about}{_after(_answer(_first(event, *names)))}"

    return words


def _answer(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value or "")
    parts = [value.get("label") or value.get("choice"), value.get("text")]
    return ", ".join(str(part) for part in parts if part)


def _dropped(event: Event) -> str:
    words = _SEEN.get(str(event.data.get("debt", "")))
    return f"marked as seen that {words}" if words else f"dropped what its ending owes{_after(_first(event, 'debt'))}"


_SEEN: Final[Mapping[str, str]] = {
    "record_ending": "its ending was not taken down by the board's own code",
    "recorder_failure": "its result could not be recorded in the ordinary way",
    "recount": "a counter of it differs",
}


def _unrecorded(event: Event) -> str:
    what = "result" if event.data.get("recorder") == "success" else "failure"
    known = "it was written all the same" if event.data.get("verdict") == "committed" else "nobody can tell if it was"
    return f"could not record the {what} of {_attempt(event)}, but {known}{_after(_first(event, 'error'))}"


def _progressed(event: Event) -> str:
    if event.data.get("kept_open_by"):
        return f"handed in {_attempt(event)}, which stays open for the tasks it filed"
    times = getattr(event, "times", 1)  # of the attempt's reports, where they are told as one
    often = f" {times} times, last" if times > 1 else ""
    return f"reported progress{often}{_after(_first(event, 'note', 'status_note'))}"


def _other(event: Event) -> str:
    return (
        f"recorded {event.kind.replace('.', ' ').replace('_', ' ')}{_after(_first(event, 'reason', 'words', 'name'))}"
    )


_Words = tuple[Callable[[Event], str], str, str]

_KINDS: Final[Mapping[str, _Words]] = {
    "task.filed": (_filed, "plus", ""),
    "task.held": (_said("held it", "text", "reason"), "held", "held"),
    "task.released": (_released, "ready", "ready"),
    "task.claimed": (_claimed, "working", "working"),
    "task.resumed": (lambda e: f"took {_attempt(e)} up again", "working", "working"),
    "task.completed": (lambda e: f"completed {_attempt(e)}", "done", "done"),
    "task.handed_in": (lambda e: f"handed in {_attempt(e)}", "check", "check"),
    "task.checked": (_checked, "check", "check"),
    "task.errored": (_errored, "stuck", "stuck"),
    "task.retried": (_retried, "again", ""),
    "task.retry_requested": (_retry_requested, "again", ""),
    "task.reclaimed": (_said("reclaimed it from a lost worker", "text", "reason"), "again", ""),
    "task.cancelled": (_cancelled, "skipped", "skipped"),
    "task.withdrawn": (lambda e: "withdrew it, since its due time passed", "clock", "skipped"),
    "task.edited": (_edited, "more", ""),
    "task.assignee_changed": (_changed("the assignee", "assignee"), "follow", ""),
    "task.priority_changed": (_changed("the priority", "priority"), "more", ""),
    "task.labels_changed": (_changed("the labels", "labels"), "more", ""),
    "task.metadata_changed": (lambda e: "changed the metadata", "more", ""),
    "task.run_linked": (lambda e: f"linked {_attempt(e)} to its run", "link", ""),
    "task.progressed": (_progressed, "more", ""),
    "task.steered": (_said("sent a message", "message", "text"), "right", ""),
    "task.handed_back": (_said("gave it back", "text", "reason"), "undo", ""),
    "task.skipped": (_said("skipped it", "text", "reason"), "skip", "skipped"),
    "debt.paid_again": (_said("had tried again what its ending owes", "debt"), "again", ""),
    "debt.dropped": (_dropped, "x", ""),
    "board.recorder_failed": (_unrecorded, "stuck", "stuck"),
    "hold.opened": (_hold("asked", "question"), "you", "you"),
    "hold.answered": (_hold("answered", "answer", "choice", "text"), "ok", ""),
    "hold.undone": (_hold("took back the answer to"), "undo", ""),
    "hold.expired": (_hold("closed, since its due time passed,", "answer", "default"), "clock", ""),
    "hold.assigned": (_hold("handed on", "to"), "follow", ""),
    "hold.discarded": (_hold("discarded", "text", "reason"), "x", ""),
}
_SENT_BACK: Final[_Words] = (_checked, "undo", "")
_OTHER: Final[_Words] = (_other, "more", "")
_FAMILIES: Final[Mapping[str, _Words]] = {
    "run": (_other, "flow", ""),
    "step": (_other, "flow", ""),
    "board": (_other, "board", ""),
    "key": (_other, "agents", ""),
}

"""Finds the answer to a question that a worker asks again, so that no answer ever reaches another question.

Pure. A question is known by its key, or by its order among those without a key, and then only if its kind
and content agree (spec: 03 section 2).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from boards.models import Hold
from boards.states import HoldKind, HoldState
from boards.stored_text import clean_text
from boards.tasks.cleaning import clean_json
from boards.workers.protocol import Answer, Ask, Option, ReplayMismatch

# What a new attempt takes over from the one before; the others have to be decided on what is shown now.
TAKEN_OVER: Final = frozenset({HoldKind.QUESTION, HoldKind.CONFIRM, HoldKind.INPUT})


@dataclass
class Replay:
    """The holds of this attempt by key, those of earlier attempts, and how many questions came without a
    key.
    """

    own: dict[str, Hold] = field(default_factory=dict)
    earlier: dict[str, Hold] = field(default_factory=dict)
    unkeyed: int = 0

    @classmethod
    def of(cls, holds: Sequence[Hold], attempt: int) -> Replay:
        """From all holds of a task, those of later attempts last."""
        return cls(
            own={hold.dedup_key: hold for hold in holds if hold.attempt == attempt},
            earlier={hold.dedup_key: hold for hold in holds if 0 < hold.attempt < attempt},
        )

    def key_of(self, ask: Ask) -> str:
        """The key under which this question is, or will be, stored. Counts the questions without one."""
        if ask.key:
            return ask.key
        self.unkeyed += 1
        return f"#{self.unkeyed}"

    def find(self, ask: Ask, key: str) -> Hold | None:
        """The hold of the same question, open or closed. Raises ReplayMismatch for another one in its place."""
        hold = self.own.get(key)
        if hold is not None:
            same = hold.kind == ask.kind if ask.key else content(ask) == content_of(hold)
            if not same:
                raise ReplayMismatch(_words(hold, ask))
            return hold
        before = self.earlier.get(key)
        if before is None or before.kind not in TAKEN_OVER or before.state != HoldState.ANSWERED:
            return None
        return before if content(ask) == content_of(before) else None


def answer_of(hold: Hold) -> Answer | None:
    """What the worker is told; None while it is open, or while its answer may still be taken back."""
    if hold.state == HoldState.OPEN or getattr(hold, "is_settling", False):
        return None
    said: dict[str, Any] = hold.answer or {}
    return Answer(
        kind=hold.kind,
        key=hold.dedup_key,
        choice=said.get("choice", ""),
        text=said.get("text", ""),
        values=said.get("values") or {},
        by=hold.answered_by_name,
        draft=hold.draft,
        draft_hash=hold.draft_hash,
        outlet=hold.outlet,
        cancelled=hold.state == HoldState.DISCARDED,
        expired=hold.state == HoldState.EXPIRED,
    )


def options_of(options: Sequence[Option]) -> list[dict[str, str]]:
    """Options as they are stored; a plain text is both value and label."""
    return [{"value": option, "label": option} if isinstance(option, str) else dict(option) for option in options]


def content(ask: Ask) -> str:
    """What makes this question the same one: its kind and all that is shown, cleaned as it is stored."""
    schema = None if ask.schema is None else dict(ask.schema)
    return _content(ask.kind, clean_text(ask.prompt or ask.title), options_of(ask.options), schema, ask.draft)


def content_of(hold: Hold) -> str:
    return _content(hold.kind, hold.prompt, hold.options, hold.schema, hold.draft)


def _content(kind: str, prompt: str, options: Any, schema: Any, draft: Any) -> str:
    shown = clean_json([str(kind), prompt, options, schema, draft], "question")
    return json.dumps(shown, sort_keys=True)


def _words(hold: Hold, ask: Ask) -> str:
    return (
        f"replay_mismatch: the worker asked {_named(hold.kind, hold.title or hold.prompt)} before, and in its place "
        f"now {_named(ask.kind, ask.title or ask.prompt)}. Give each question a key of its own."
    )


def _named(kind: str, words: str) -> str:
    return f"{kind} “{words[:120]}”"

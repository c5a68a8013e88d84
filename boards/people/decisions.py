"""What an answer has to be, and what happens past a due time; pure (spec: 04 section 1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from boards import schemas
from boards.errors import InvalidInput
from boards.models import Hold
from boards.states import HoldKind
from boards.tasks.cleaning import CONFIRM_CHOICES, checked_object, checked_text

MAX_WORDS: Final = 100_000

# What a kind offers to choose from; a question brings its own, and free text always.
CHOICES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    HoldKind.CONFIRM: CONFIRM_CHOICES,
    HoldKind.APPROVAL: (("approve", "Approve"), ("reject", "Reject")),
    HoldKind.REVIEW: (("approve", "Approve"), ("request_changes", "Request changes")),
    HoldKind.GATE: (("send", "Send"), ("discard", "Discard")),
}
YES: Final = frozenset({"yes", "approve", "send"})
# Kinds whose answer is bound to what was shown.
BOUND: Final = frozenset({HoldKind.APPROVAL, HoldKind.REVIEW, HoldKind.GATE})
# What a kind reads as when its due time passes without a named default.
PAST_DUE: Final[Mapping[str, str]] = {HoldKind.APPROVAL: "reject", HoldKind.GATE: "discard"}


def content_hash(*parts: Any) -> str:
    """Hash of prompt, options, schema and draft: an answer never reaches another question."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def draft_hash(draft: Any) -> str:
    return "" if draft is None else content_hash(draft)


def choices_of(hold: Hold) -> list[tuple[str, str]]:
    """(value, label) pairs that may be chosen."""
    if hold.kind == HoldKind.QUESTION:
        return [(str(option["value"]), str(option.get("label") or option["value"])) for option in hold.options]
    return list(CHOICES.get(hold.kind, ()))


def checked_answer(hold: Hold, choice: str, text: str, values: Any) -> dict[str, Any]:
    """The answer as it is stored; InvalidInput says what is missing."""
    words = checked_text(text, "text", MAX_WORDS).strip()
    if hold.kind == HoldKind.INPUT:
        return {"values": _checked_values(hold, values), "text": words}
    allowed = [value for value, _ in choices_of(hold)]
    if choice and choice not in allowed:
        raise InvalidInput(f"Choose one of: {', '.join(allowed)}.", field="choice")
    if hold.kind == HoldKind.QUESTION:
        if not choice and not words:
            raise InvalidInput("Choose an option, or write your own answer.", field="choice")
    elif not choice:
        raise InvalidInput(f"Choose one of: {', '.join(allowed)}.", field="choice")
    if choice == "request_changes" and not words:
        raise InvalidInput("Say what should change.", field="text")
    return {"choice": choice, "text": words}


def _checked_values(hold: Hold, values: Any) -> dict[str, Any]:
    checked = checked_object(values, "values")
    try:
        problems = schemas.faults(hold.schema or {}, checked)
    except schemas.BadSchema as bad:
        raise InvalidInput(f"{bad} Dismiss the question.", field="values") from None
    for problem in problems:
        place = "/".join(str(part) for part in problem.absolute_path) or "the form"
        raise InvalidInput(f"{place}: {problem.message[:500]}.", field="values")
    return checked


def checked_schema(schema: Any) -> dict[str, Any] | None:
    """The schema of a form; InvalidInput where it could not judge an answer, so that nobody could ever give one."""
    if schema is None:
        return None
    checked = checked_object(schema, "schema")
    try:
        schemas.faults(checked, {})
        _resolve(checked)
    except schemas.BadSchema as bad:
        raise InvalidInput(str(bad), field="schema") from None
    return checked


def _resolve(schema: dict[str, Any]) -> None:
    """Look up every reference, also those that an empty form does not reach. Raises BadSchema."""
    registry: Registry[Any] = Registry()
    here = registry.resolver_with_root(DRAFT202012.create_resource(schema))
    todo: list[Any] = [schema]
    while todo:
        part = todo.pop()
        todo += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        for name in ("$ref", "$dynamicRef"):
            place = part.get(name) if isinstance(part, dict) else None
            if not isinstance(place, str):
                continue
            try:
                here.lookup(place)
            except Unresolvable:
                raise schemas.BadSchema(f"The schema refers to {place[:200]}, which is not in it.") from None


def approved(hold: Hold) -> bool:
    """Whether the answer is a yes. Silence, an expiry without one and a discard never are."""
    return hold.answer is not None and hold.answer.get("choice") in YES


def waits_past_due(hold: Hold) -> bool:
    """A question or confirm without a named default stays open past its due time; it only shows as overdue."""
    return hold.kind in {HoldKind.QUESTION, HoldKind.CONFIRM} and not hold.default


def expiry_answer(hold: Hold) -> dict[str, Any] | None:
    """The answer that stands once the due time has passed, or None where the asker is told that nobody answered."""
    named = hold.default if hold.kind in {HoldKind.QUESTION, HoldKind.CONFIRM} else ""
    choice = named or PAST_DUE.get(hold.kind, "")
    return {"choice": choice, "text": ""} if choice else None

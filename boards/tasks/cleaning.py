"""Cleans and checks what callers and workers store; pure (spec: 01 section 1, last paragraph, and faults 22-24).

Encoding is never a reason to refuse: NUL bytes and lone surrogates are replaced. Size is: a caller is refused, a
worker's report is cut with a visible note.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import Any, Final

from boards.errors import InvalidInput
from boards.masking import masked
from boards.states import HoldKind
from boards.stored_text import clean_json_text, clean_text

MAX_GOAL: Final = 200_000
MAX_TEXT: Final = 1_000_000
MAX_JSON: Final = 1_048_576
MAX_OUTPUT: Final = 1_048_576
MAX_LINE: Final = 65_536
MAX_TITLE: Final = 200
MAX_LABELS: Final = 50
MAX_REASON: Final = 10_000
MAX_WORDS: Final = 100_000  # of a checker
MAX_KEY: Final = 200
MAX_CHOICE: Final = 1_000
FIRST_YEAR, LAST_YEAR = 1970, 9000
MAX_DEFAULT: Final = 100
CONFIRM_CHOICES: Final = (("yes", "Yes"), ("no", "No"))
RESERVED_PREFIXES: Final = ("orchestra:", "notice_undeliverable:")

# What a cascade leaves on the rows that it cancels: where it came from, and that nobody had released the row yet.
CASCADE_FROM: Final = "orchestra:cascade_from"
CASCADE_WAS_HELD: Final = "orchestra:cascade_was_held"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,199}")
_INVISIBLE = {"Cf", "Cc", "Zs", "Zl", "Zp"}
_BLANK_LETTERS = "\u3164\u115f\u1160\uffa0\u2800"  # letters by category that show nothing


def is_blank(value: str) -> bool:
    """Whether nothing of it can be seen: white space, zero-width and other invisible characters only."""
    return all(unicodedata.category(c) in _INVISIBLE or c in _BLANK_LETTERS for c in value)


def clean_json(value: Any, field: str) -> Any:
    """The value as JSON stores it; refuses what does not survive JSON, or is too large."""
    if value == {} and isinstance(value, dict):
        return {}
    try:
        text = clean_json_text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{field} must be plain JSON: {error}.", field=field) from None
    if len(text.encode()) > MAX_JSON:
        raise InvalidInput(f"{field} is larger than 1 MiB. Put large things into a file and name it.", field=field)
    return json.loads(text)


def report_json(value: Any, *, mask: bool = True) -> Any:
    """What a worker hands in: cleaned, without secrets, and over the limit cut to a text that says so (never refused).

    `mask` False: for what the worker alone reads again, and has to find as it was.
    """
    if value == {} and isinstance(value, dict):
        return {}
    try:
        text = clean_json_text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"output must be plain JSON: {error}.", field="output") from None
    text = masked(text) if mask else text
    cut = _cut(text, MAX_OUTPUT)
    return json.loads(text) if cut is None else {"text": cut, "note": "Cut at 1 MiB.", "cut": True}


def report_data(value: Any) -> str:
    """The data beside a transcript line, as JSON text; over the limit of a line cut to a text that says so."""
    text = masked(clean_json_text(value))
    cut = _cut(text, MAX_LINE)
    return text if cut is None else clean_json_text({"text": cut, "note": "Cut at 64 KiB.", "cut": True})


def _cut(text: str, limit: int) -> str | None:
    """The text cut to `limit` bytes, or None where it is no longer than that."""
    if 4 * len(text) <= limit or len(text.encode()) <= limit:
        return None
    return text.encode()[:limit].decode(errors="ignore") + "…"


def report_line(value: str) -> str:
    """One transcript line: cleaned, without secrets, and cut at 64 KiB with a visible note."""
    text = clean_text(masked(value))
    if 4 * len(text) <= MAX_LINE or len(text.encode()) <= MAX_LINE:
        return text
    return text.encode()[:MAX_LINE].decode(errors="ignore") + " … [cut at 64 KiB]"


def goal_hash(goal: str) -> str:
    """md5 of the goal with case and spacing ignored."""
    return hashlib.md5(" ".join(goal.casefold().split()).encode(), usedforsecurity=False).hexdigest()


def checked_goal(value: object) -> str:
    return required_text(value, "goal", MAX_GOAL)


def required_text(value: object, field: str, limit: int) -> str:
    text = checked_text(value, field, limit)
    if is_blank(text):
        raise InvalidInput(f"{field} must not be blank.", field=field)
    return text


def checked_text(value: object, field: str, limit: int = MAX_TEXT) -> str:
    if value == "":  # most fields of most filings
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be text.", field=field)
    if len(value) > limit:
        raise InvalidInput(f"{field} is longer than {limit:,} characters. Shorten it.", field=field)
    return clean_text(value)


def checked_title(value: object) -> str:
    text = checked_text(value, "title", MAX_TITLE)
    if not text:
        return ""
    if is_blank(text):
        raise InvalidInput("title looks blank. Leave it out, or write something that can be seen.", field="title")
    return text.strip()


def checked_id(value: object) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise InvalidInput(
            "id must be 1 to 200 letters, digits or . _ ~ - characters, and start with a letter or digit.",
            field="id",
        )
    return value


def checked_ids(value: object, field: str) -> list[str]:
    """A list of ids, each once."""
    if value == ():
        return []
    if isinstance(value, str) or not isinstance(value, Sequence | Set):
        raise InvalidInput(f"{field} must be a list of task ids.", field=field)
    return list(dict.fromkeys(checked_id(each) for each in value))


def checked_labels(value: object) -> list[str]:
    if value == ():
        return []
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) > MAX_LABELS:
        raise InvalidInput(f"labels must be a list of at most {MAX_LABELS} texts.", field="labels")
    return list(dict.fromkeys(required_text(label, "labels", 100).strip() for label in value))


def checked_object(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{field} must be a JSON object, such as {{}}.", field=field)
    cleaned: dict[str, Any] = clean_json(value, field)
    return cleaned


def checked_metadata(value: object) -> dict[str, Any]:
    metadata = checked_object(value, "metadata")
    taken = [key for key in metadata if key.startswith(RESERVED_PREFIXES)]
    if taken:
        raise InvalidInput(f"metadata keys such as {taken[0]!r} belong to the system.", field="metadata")
    return metadata


def checked_int(value: object, field: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInput(f"{field} must be a whole number from {low} to {high}.", field=field)
    return value


def checked_moment(value: object, field: str) -> datetime | None:
    """The moment in UTC, or None. Only years that every reader of the row can hold: one that nobody can load again
    stops all who read beside it.
    """
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidInput(f"{field} must be a time with its offset.", field=field)
    try:
        moment = value.astimezone(UTC)
    except (OverflowError, ValueError):
        moment = None
    if moment is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise InvalidInput(f"{field} must lie between the years {FIRST_YEAR} and {LAST_YEAR}.", field=field)
    return moment


def checked_options(kind: str, value: object, field: str = "options") -> list[dict[str, Any]]:
    """What a question offers to choose from: each option has a value of its own. Other kinds bring none."""
    options = clean_json(list(value) if isinstance(value, tuple) else value, field)
    if not isinstance(options, list) or not all(isinstance(option, dict) for option in options):
        raise InvalidInput("options must be a list of objects with value, label and description.", field=field)
    if options and kind != HoldKind.QUESTION:
        raise InvalidInput("Only a question brings options of its own.", field=field)
    if options and not 2 <= len(options) <= 6:
        raise InvalidInput("A question offers 2 to 6 options, or none.", field=field)
    values = [option.get("value") for option in options]
    for each in values:
        if not isinstance(each, str) or is_blank(each) or len(each) > MAX_CHOICE:
            raise InvalidInput(f"Each option needs a value: 1 to {MAX_CHOICE:,} characters.", field=field)
    if len(set(values)) != len(values):
        raise InvalidInput("Two options have the same value.", field=field)
    return options


def checked_default(kind: str, options: Sequence[Mapping[str, Any]], value: object, field: str = "default") -> str:
    """The answer that stands if nobody gives one, which only the author of a question or confirm may name."""
    default = checked_text(value, field, MAX_DEFAULT)
    if default and kind not in {HoldKind.QUESTION, HoldKind.CONFIRM}:
        raise InvalidInput("Only a question or a confirm has a default; silence is never a yes.", field=field)
    choices = [choice for choice, _ in CONFIRM_CHOICES] if kind == HoldKind.CONFIRM else [o["value"] for o in options]
    if default and choices and default not in choices:
        raise InvalidInput(f"The default must be one of: {', '.join(choices)}.", field=field)
    return default

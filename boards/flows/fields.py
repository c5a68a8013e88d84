"""Reads one field of a flow's document each: its type, its limits, and the sentence when it is neither.

Pure. `boards.flows.validation` puts the fields together and judges what they say of one another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jsonschema
from jsonschema.validators import Draft202012Validator

from boards.flows.document import Located, Problems

Reader = Callable[[Located, Problems], Any]

KEY_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_COLOR: Final = re.compile(r"#?[a-z0-9-]{1,20}")
_MAX_TEXT: Final = 100_000
# Lengths of time stay far below what a database interval can hold.
_MAX_WHOLE: Final = 10 * 366 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Fields:
    """What a mapping may hold, and what it must."""

    readers: Mapping[str, Reader]
    required: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)  # names that are no fields here, each with why

    def read(self, at: Located, problems: Problems, what: str) -> dict[str, Any]:
        """The fields that could be read. What is wrong, unknown or missing is added to `problems`."""
        if not isinstance(at.value, dict):
            problems.add(at, f"{what} must be a mapping of fields.")
            return {}
        for name, child in at.items():
            if name not in self.readers:
                takes = f"{what} takes {_listed([*self.readers])}."
                problems.add(child, f'Unknown field "{name}". {self.refused.get(name, takes)}')
        for name in self.required:
            if name not in at.value:
                problems.add(at, f"{what} needs {_article(name)}.", name)
        return {name: self.readers[name](child, problems) for name, child in at.items() if name in self.readers}


def _article(name: str) -> str:
    return f'a "{name}"' if name[0] not in "aeio" else f'an "{name}"'


def _listed(names: list[str]) -> str:
    return ", ".join(sorted(names))


def text(at: Located, problems: Problems) -> str:
    """Text that may be empty; a number where text is meant is taken as it is written."""
    if at.value is None:
        return ""
    if isinstance(at.value, bool) or not isinstance(at.value, str | int | float):
        problems.add(at, "This must be text.")
        return ""
    try:
        told = str(at.value)
    except ValueError:  # Python writes no number of thousands of digits
        problems.add(at, "This number is too long.")
        return ""
    if len(told) > _MAX_TEXT:
        problems.add(at, f"This is longer than {_MAX_TEXT:,} characters.")
    return told


def name(at: Located, problems: Problems) -> str:
    told = text(at, problems).strip()
    if not 1 <= len(told) <= 200:
        problems.add(at, "A name has 1 to 200 characters.")
    return told


def key(at: Located, problems: Problems) -> str:
    told = text(at, problems)
    if not KEY_PATTERN.fullmatch(told):
        problems.add(at, "A key has 1 to 80 letters, digits, - and _, and begins with a letter or digit.")
    return told


def roster_name(at: Located, problems: Problems) -> str:
    told = text(at, problems).strip()
    if len(told) > 100:
        problems.add(at, "A name on the roster has at most 100 characters.")
    return told


def color(at: Located, problems: Problems) -> str:
    told = text(at, problems)
    if told and not _COLOR.fullmatch(told):
        problems.add(at, 'A color is a word such as "green", or # and hexadecimal digits.')
    return told


def flag(at: Located, problems: Problems) -> bool:
    if not isinstance(at.value, bool):
        problems.add(at, "This must be true or false.")
        return False
    return at.value


def whole(least: int) -> Reader:
    """A whole number from `least` on, or nothing."""

    def reader(at: Located, problems: Problems) -> int | None:
        value = at.value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_WHOLE:
            problems.add(at, f"This must be a whole number from {least} on.")
            return None
        return value

    return reader


def one_of(*words: str) -> Reader:
    def reader(at: Located, problems: Problems) -> str:
        if at.value not in words:
            problems.add(at, f"This must be one of {', '.join(words)}.")
            return words[0]
        return str(at.value)

    return reader


def join(at: Located, problems: Problems) -> str | int:
    """When a `parallel` is complete: all of its branches, any of them, or a number of them."""
    value = at.value
    if value in ("all", "any"):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    problems.add(at, "This must be all, any, or a whole number from 1 on.")
    return "all"


def keys(at: Located, problems: Problems) -> tuple[str, ...]:
    """A list of keys, each once."""
    if at.value is None:
        return ()
    if not isinstance(at.value, list):
        problems.add(at, "This must be a list of keys.")
        return ()
    read = [key(each, problems) for each in at.value]
    for each, told in zip(at.value, read, strict=True):
        if read.count(told) > 1:
            problems.add(each, f'"{told}" is listed more than once.')
    return tuple(dict.fromkeys(read))


def mapping(at: Located, problems: Problems) -> dict[str, Any] | None:
    """Names with values; what is empty reads as nothing."""
    if at.value is None:
        return None
    if not isinstance(at.value, dict):
        problems.add(at, "This must be a mapping of names and values.")
        return None
    return at.plain() or None


def plain(at: Located, problems: Problems) -> Any:
    """Any value; whoever uses it judges it."""
    return at.plain()


def input_schema(at: Located, problems: Problems) -> dict[str, Any]:
    """The JSON schema of what starts a run, or of what an `input` asks for: an object with named properties."""
    schema = at.plain()
    if schema is None:
        return {}
    if not isinstance(schema, dict):
        problems.add(at, "This must be a JSON schema: a mapping with `properties`.")
        return {}
    if schema.get("type", "object") != "object":
        problems.add(at, 'Each value has a name, so the schema has the type "object".')
    try:
        Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        problems.add(_walk(at, error.absolute_path), f"This is not a valid JSON schema: {error.message}.")
        return {}
    _refuse_far_references(at, problems)
    return schema


def _walk(at: Located, path: Any) -> Located:
    for part in path:
        inner = at.value.get(part) if isinstance(at.value, dict) else None
        if isinstance(at.value, list) and isinstance(part, int) and part < len(at.value):
            inner = at.value[part]
        if inner is None:
            return at
        at = inner
    return at


def _refuse_far_references(at: Located, problems: Problems) -> None:
    children = at.value.values() if isinstance(at.value, dict) else at.value if isinstance(at.value, list) else ()
    for child in children:
        _refuse_far_references(child, problems)
    if isinstance(at.value, dict):
        for word in ("$ref", "$dynamicRef"):
            reference = at.value.get(word)
            if reference is not None and isinstance(reference.value, str) and not reference.value.startswith("#"):
                problems.add(reference, "A schema may refer to its own parts only (#/…); nothing is fetched.")

"""What changed from one definition of a flow to another: in words for people, and line by line. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from boards.flows.definition import FlowDefinition
from boards.flows.exporting import exported, flow_fields

_CONTEXT: Final = 3
_MAX_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the text difference. `kind`: same, added, removed or gap (lines left out)."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """`words`: a sentence for each change. `lines`: the two texts, folded where nothing changed."""

    words: tuple[str, ...]
    lines: tuple[Line, ...]


def difference(old: FlowDefinition, new: FlowDefinition) -> Difference:
    """Everything in which `new` differs from `old`; empty where they agree."""
    before, after = flow_fields(old), flow_fields(new)
    words = [*_fields("", before, after, skip=("steps",)), *_steps(before["steps"], after["steps"])]
    return Difference(tuple(words), tuple(_lines(exported([old]), exported([new]))))


def _fields(of: str, before: Mapping[str, Any], after: Mapping[str, Any], skip: tuple[str, ...] = ()) -> Iterator[str]:
    for name in [*after, *(name for name in before if name not in after)]:
        old, new = before.get(name), after.get(name)
        if name in skip or json.dumps(old) == json.dumps(new):
            continue
        where = f'{of}"{name}"'
        if name not in before:
            yield f"{where} is set to {_shown(new)}." if _is_short(new) else f"{where} is new."
        elif name not in after:
            yield f"{where} is no longer set; it was {_shown(old)}." if _is_short(old) else f"{where} is no longer set."
        elif _is_short(old) and _is_short(new):
            yield f"{where} was {_shown(old)} and is {_shown(new)} now."
        else:
            yield f"{where} has changed."


def _steps(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[str]:
    old, new = ({step["key"]: step for step in steps} for steps in (before, after))
    for key in [key for key in old if key not in new]:
        yield f'The step {old[key]["name"]} ("{key}") is gone.'
    names = [step["name"] for step in after]
    for place, (key, step) in enumerate(new.items()):
        if key not in old:
            at = f"after {names[place - 1]}" if place else "at the beginning"
            yield f'The step {step["name"]} ("{key}", {step["kind"]}) is new, {at}.'
    kept_before, kept_after = [key for key in old if key in new], [key for key in new if key in old]
    if kept_before != kept_after:
        yield f"The steps stand in another order: {', '.join(new[key]['name'] for key in kept_after)}."
    for key in kept_after:
        yield from _fields(f"{new[key]['name']}: ", old[key], new[key])


def _is_short(value: Any) -> bool:
    return not isinstance(value, dict | list) and len(str(value)) <= _MAX_SHOWN and "\n" not in str(value)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | int | float) else f"“{value}”"


def _lines(old: str, new: str) -> Iterator[Line]:
    kinds = {" ": "same", "+": "added", "-": "removed"}
    diff = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=_CONTEXT)
    for place, line in enumerate(diff):
        if place < 2:  # the names of the two files
            continue
        if line.startswith("@@"):
            yield Line("gap", "…")
        else:
            yield Line(kinds[line[0]], line[1:])

"""Keeps the order of names in stored mappings, which a JSON column of the database does not. Pure.

It matters: `set_data` sets its names one after the other, a form asks in the author's order, and an export is to read
as what was imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Path = str
Orders = dict[Path, list[str]]


def orders(value: Any, path: Path = "") -> Orders:
    """The names of each mapping inside `value` that the database would hand back in another order, by its path."""
    found: Orders = {}
    if isinstance(value, Mapping):
        names = list(value)
        if names != sorted(names, key=_as_stored):
            found[path] = names
        for name, inner in value.items():
            found |= orders(inner, f"{path}/{_part(name)}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            found |= orders(inner, f"{path}/{place}")
    return found


def ordered(value: Any, kept: Mapping[Path, Sequence[str]], path: Path = "") -> Any:
    """`value` with the names of its mappings in the order that was kept; names it does not know come last."""
    if isinstance(value, dict):
        known = [name for name in kept.get(path, ()) if name in value]
        names = [*known, *(name for name in value if name not in set(known))]
        return {name: ordered(value[name], kept, f"{path}/{_part(name)}") for name in names}
    if isinstance(value, list):
        return [ordered(inner, kept, f"{path}/{place}") for place, inner in enumerate(value)]
    return value


def _as_stored(name: str) -> tuple[int, bytes]:
    told = name.encode("utf-8", "surrogatepass")
    return len(told), told


def _part(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")

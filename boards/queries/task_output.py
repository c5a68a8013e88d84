"""Decides how a task's input or output is shown: prose, table, link, JSON tree, or text; pure (spec: 08 "Task page").

Values are whatever a worker handed in: nothing is trusted, everything has a limit, and what is cut says so. The
templates escape; only `boards.markup` makes markup from text.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

MAX_TEXT: Final = 60_000
MAX_ROWS: Final = 200
MAX_COLUMNS: Final = 12
MAX_NODES: Final = 400
MAX_DEPTH: Final = 8
MAX_DIFF_LINES: Final = 400
_CONTEXT: Final = 3

Kind = Literal["none", "markdown", "text", "table", "link", "tree", "json"]


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a JSON tree: a leaf has `text`, a branch has `children`."""

    name: str
    text: str = ""
    branch: str = ""  # "3 fields", "12 items", or "" for a leaf
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """A value ready for its template: exactly what `kind` needs is filled. `cut`: the note on what was left out."""

    kind: Kind
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    tree: tuple[Node, ...] = ()
    cut: str = ""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """`mark`: "add", "del" or "" for context, "gap" where lines were left out."""

    number: int
    mark: str
    text: str


def shown(value: Any) -> Shown:
    """How `value` is shown: a lone text or `{"markdown": …}` is prose, a web address a link, and so on."""
    if value is None or value == {} or value == []:
        return Shown("none")
    if isinstance(value, str):
        return Shown("link", value) if is_link(value) else _prose(value)
    if isinstance(value, dict) and isinstance(value.get("markdown"), str) and len(value) == 1:
        return _prose(value["markdown"])
    if isinstance(value, dict) and len(value) == 1:
        name, only = next(iter(value.items()))
        if name in {"url", "link"} and isinstance(only, str) and is_link(only):
            return Shown("link", only)
        if name == "file" and isinstance(only, str):
            return Shown("text", _cut(only)[0])
    if rows := _flat_rows(value):
        return _table(rows)
    return _tree(value)


def is_link(text: str) -> bool:
    """Whether the whole text is one http or https address."""
    return bool(re.fullmatch(r"https?://[^\s<>\"']{1,2000}", text))


def pretty(value: Any) -> str:
    """The value as indented JSON, cut at the limit."""
    return _cut(json.dumps(value, indent=2, ensure_ascii=False))[0]


def as_text(value: Any) -> str:
    """The value as the lines that a difference compares."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("markdown"), str):
        return str(value["markdown"])
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def changes(before: Any, after: Any) -> list[DiffLine]:
    """What changed between two hand-ins, line by line with a little context; empty where nothing did."""
    old, new = as_text(before)[:MAX_TEXT].splitlines(), as_text(after)[:MAX_TEXT].splitlines()
    lines: list[DiffLine] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=True).get_grouped_opcodes(_CONTEXT):
        if lines:
            lines.append(DiffLine(0, "gap", ""))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                lines += [DiffLine(n + 1, "", new[n]) for n in range(new_from, new_to)]
                continue
            lines += [DiffLine(n + 1, "del", old[n]) for n in range(old_from, old_to)]
            lines += [DiffLine(n + 1, "add", new[n]) for n in range(new_from, new_to)]
    return lines[:MAX_DIFF_LINES]


def _cut(text: str) -> tuple[str, str]:
    if len(text) <= MAX_TEXT:
        return text, ""
    return text[:MAX_TEXT] + " …", f"Cut here at {MAX_TEXT:,} of {len(text):,} characters."


def _prose(text: str) -> Shown:
    shown_text, note = _cut(text)
    return Shown("markdown", shown_text, cut=note)


def _flat_rows(value: Any) -> list[dict[str, Any]]:
    """The rows where the value is a list of flat objects with some field in common, else nothing."""
    rows = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and row for row in rows):
        return []
    flat = all(not isinstance(cell, (dict, list)) for row in rows for cell in row.values())
    return rows if flat else []


def _table(rows: list[dict[str, Any]]) -> Shown:
    names = list(dict.fromkeys(name for row in rows[:MAX_ROWS] for name in row))
    columns = tuple(names[:MAX_COLUMNS])
    cells = tuple(tuple(leaf(row.get(name), "") for name in columns) for row in rows[:MAX_ROWS])
    left_out = []
    if len(rows) > MAX_ROWS:
        left_out.append(f"{len(rows) - MAX_ROWS:,} more rows")
    if len(names) > MAX_COLUMNS:
        left_out.append(f"{len(names) - MAX_COLUMNS} more columns")
    note = f"Not shown: {' and '.join(left_out)}." if left_out else ""
    return Shown("table", columns=columns, rows=cells, cut=note)


def leaf(value: Any, nothing: str = "null") -> str:
    """A single JSON value as people read it."""
    if value is None:
        return nothing
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if len(text) <= 2_000 else text[:2_000] + " …"


@dataclass(slots=True)
class _Budget:
    left: int = MAX_NODES
    spent: bool = field(default=False)

    def take(self) -> bool:
        self.left -= 1
        self.spent = self.spent or self.left < 0
        return self.left >= 0


def _tree(value: Any) -> Shown:
    budget = _Budget()
    nodes = _nodes(value, budget, 0) if isinstance(value, (dict, list)) else (Node("", leaf(value)),)
    note = f"Only the first {MAX_NODES} values are shown." if budget.spent else ""
    return Shown("tree", tree=nodes, cut=note)


def _nodes(value: dict[str, Any] | list[Any], budget: _Budget, depth: int) -> tuple[Node, ...]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value, start=1)
    made: list[Node] = []
    for name, child in pairs:
        if not budget.take():
            break
        made.append(_node(str(name)[:200], child, budget, depth))
    return tuple(made)


def _node(name: str, value: Any, budget: _Budget, depth: int) -> Node:
    if not isinstance(value, (dict, list)):
        return Node(name, leaf(value))
    if not value or depth >= MAX_DEPTH:
        return Node(name, pretty(value)[:2_000])
    size = f"{len(value)} {('field' if isinstance(value, dict) else 'item')}{'' if len(value) == 1 else 's'}"
    return Node(name, branch=size, children=_nodes(value, budget, depth + 1))

"""Reads the text of a batch into filings: a task a line, or a block each (spec: 01 section 3).

Parsing only. `@name` at the head of a task says whom it is for; `[after 1, 3]` at the end of its first line says which
tasks above it waits for, by their number, or which tasks of the board by their id. Whether it may be filed so is the
engine's to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.utils.translation import gettext as _

from boards.tasks.types import Filing

_TO: Final = re.compile(r"@(\S+)(?:\s+|$)(.*)", re.DOTALL)
_AFTER: Final = re.compile(r"(.*?)\s*\[after\s+([^\[\]]+)\]", re.DOTALL | re.IGNORECASE)
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,199}")
SHOWN: Final = 60  # characters of a task, where a sentence names it


@dataclass(frozen=True, slots=True)
class Line:
    """One task of the batch as it was written. `number` from 1; `after`: numbers above, and ids of the board."""

    number: int
    head: str
    rest: str = ""
    assignee: str = ""
    after: tuple[str, ...] = ()
    problem: str = ""

    @property
    def above(self) -> list[int]:
        return [int(each) for each in self.after if _is_number(each)]

    @property
    def short(self) -> str:
        return self.head if len(self.head) <= SHOWN else f"{self.head[:SHOWN]}…"


def _is_number(told: str) -> bool:
    return told.isdecimal() and len(told) < 10


def read_lines(text: str, *, blocks: bool, names: Sequence[str]) -> list[Line]:
    """The tasks in their order, each with what is wrong about it. `names`: who is on the roster."""
    text = text.replace("\r\n", "\n")
    parts = re.split(r"\n[^\S\n]*\n", text) if blocks else text.split("\n")
    written = [part.strip() for part in parts if part.strip()]
    return [_line(number, each, names) for number, each in enumerate(written, 1)]


def filings_of(lines: Sequence[Line], shared: dict[str, Any], mark: str) -> list[Filing]:
    """One filing a line. `shared`: fields that all have; `mark`: what ids are made of where a line names another."""
    named = any(line.above for line in lines)
    return [_filing(line, shared, mark if named else "") for line in lines]


def _filing(line: Line, shared: dict[str, Any], mark: str) -> Filing:
    own = {"assignee": line.assignee} if line.assignee else {}
    return Filing(
        **{**shared, **own},
        id=f"{mark}-{line.number}" if mark else "",
        title=line.head if line.rest else "",
        goal=line.rest or line.head,
        deps=list(dict.fromkeys(f"{mark}-{int(each)}" if _is_number(each) else each for each in line.after)),
    )


def _line(number: int, text: str, names: Sequence[str]) -> Line:
    head, _sep, rest = text.partition("\n")
    head, rest = head.strip(), rest.strip()
    line = Line(number, head, rest)
    if after := _AFTER.fullmatch(head):
        line = replace(line, head=after[1], after=tuple(re.split(r"[,\s]+", after[2].strip(" ,"))))
    if to := _TO.fullmatch(line.head):
        line = _assigned(replace(line, head=to[2].strip()), to[1], names)
    return line if line.problem else replace(line, problem=_problem(line))


def _assigned(line: Line, name: str, names: Sequence[str]) -> Line:
    known = {each.casefold(): each for each in names}
    if found := known.get(name.casefold()):
        return replace(line, assignee=found)
    said = _("“%(name)s” is not on the roster. There is %(known)s.")
    return replace(line, problem=said % {"name": name, "known": ", ".join(names) or _("nobody yet")})


def _problem(line: Line) -> str:
    if not line.head:
        return _("Write what is to be done.")
    for each in line.after:
        if each.isdecimal() and not (_is_number(each) and 1 <= int(each) < line.number):
            said = _("It can wait only for tasks above it: %(n)s is not the number of one.")
            return said % {"n": each[:20]}
        if not _ID.fullmatch(each):
            return _("“%(each)s” is neither the number of a task above nor the id of one.") % {"each": each[:SHOWN]}
    return ""

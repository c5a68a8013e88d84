"""Reads a reviewer's words for the few wishes that the deterministic writer of `release_notes` can fulfil.

Pure. What it does not understand whole is answered as `unmet`, so that the draft shows it instead of passing it over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_PARTS: Final = {
    "feat": r"features?",
    "fix": r"(?:bug ?)?fix(?:es)?",
    "docs": r"docs?|documentation",
    "perf": r"perf|performance",
    "refactor": r"refactor(?:s|ings?)?",
    "test": r"tests?",
    "build": r"builds?",
    "ci": r"ci",
    "chore": r"chores?",
    "other": r"others?|the rest|miscellaneous",
    "breaking": r"breaking(?: changes?)?",
    "contributors": r"contributors?|names|authors",
    "hashes": r"(?:commit )?(?:hash(?:es)?|shas?|ids?)",
}
_PART: Final = "|".join(f"(?P<{name}>{pattern})" for name, pattern in _PARTS.items())
_ANY: Final = "|".join(pattern for pattern in _PARTS.values())
_FILLER: Final = r"(?:the|any|all|every|list of|section|sections|commits|changes|group|part)"
_LIST: Final = rf"(?:{_FILLER}\s+)*(?:{_ANY})(?:\s+{_FILLER})*"
_AND: Final = r"(?:\s*,\s*|\s+(?:and|or|nor)\s+)"
_DROP: Final = re.compile(
    rf"\b(?:without|no|drop|remove|skip|omit|leave out|leave off)\s+(?P<what>{_LIST}(?:{_AND}{_LIST})*)\b",
    re.IGNORECASE,
)
_SHORTER: Final = re.compile(
    r"\b(?:make (?:it|this|them) )?(?:much |a bit |a little )?(?:short(?:er)?|brief(?:er)?|too long)\b", re.IGNORECASE
)
_TITLE: Final = re.compile(
    r"""\b(?:title:\s*|call it\s+|title it\s+)["“”']?(?P<title>[^"“”'\n]{1,150})["“”']?""", re.IGNORECASE
)
_POLITE: Final = re.compile(
    r"\b(?:please|thanks|thank you|make|it|this|is|the|a|but|and|also|much|bit|too|with|list|notes?|draft|again)\b",
    re.IGNORECASE,
)
_CLAUSES: Final = re.compile(r"[;\n]+|(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the draft does differently. `honoured`: in words; `unmet`: clauses that were not understood whole."""

    dropped: frozenset[str] = frozenset()
    short: bool = False
    title: str = ""
    honoured: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()

    def drops(self, part: str) -> bool:
        return part in self.dropped


def read_wishes(words: Iterable[str]) -> Wishes:
    """The wishes in all that was said, oldest first; a later title wins over an earlier one."""
    dropped: set[str] = set()
    unmet: list[str] = []
    short, title = False, ""
    for clause in (part.strip() for said in words for part in _CLAUSES.split(said)):
        if not clause:
            continue
        left = clause
        if found := _TITLE.search(left):
            title = found["title"].strip(" .")
            left = left.replace(found[0], " ")
        for drop in _DROP.finditer(left):
            dropped |= {
                part.lastgroup
                for part in re.finditer(rf"\b(?:{_PART})\b", drop["what"], re.IGNORECASE)
                if part.lastgroup
            }
        left = _DROP.sub(" ", left)
        if _SHORTER.search(left):
            short = True
            left = _SHORTER.sub(" ", left)
        if re.search(r"\w", _POLITE.sub(" ", left)):
            unmet.append(clause)
    return Wishes(
        frozenset(dropped), short, title, tuple(_honoured(dropped, short, title)), tuple(dict.fromkeys(unmet))
    )


def _honoured(dropped: set[str], short: bool, title: str) -> Iterable[str]:
    if title:
        yield f"the title “{title}”"
    for part in sorted(dropped):
        yield f"without {part}"
    if short:
        yield "shorter"

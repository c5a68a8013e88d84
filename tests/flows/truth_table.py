"""The truth table of spec 05 section 3, as it stands there, and every case that a row speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

MOVES, MOVES_WITH_SIGNAL = "moves", "moves; history carries the signal"
STAYS, EFFECTS_RUN, SIGNAL_CLEARED = "stays", "stays; side effects run", "stays; signal cleared"
BOTH = (False, True)
NATURAL, CANCEL, OTHER = "natural end", "user cancel", "any other stop"


@dataclass(frozen=True)
class Case:
    """One situation: how the turn ended, what the step says, and what is there."""

    source: str
    gate: bool
    flag: bool
    question: bool
    signal: bool
    transition: bool

    def __str__(self) -> str:
        there = [name for name in ("gate", "flag", "question", "signal", "transition") if getattr(self, name)]
        return "-".join([self.source.replace(" ", "_"), *there])


@dataclass(frozen=True)
class Row:
    """One line of the table; None stands for "any"."""

    source: str
    gate: bool | None
    flag: bool | None
    question: bool | None
    signal: bool | None
    transition: bool | None
    result: str

    def speaks_of(self, case: Case) -> bool:
        names = ("gate", "flag", "question", "signal", "transition")
        return self.source == case.source and all(getattr(self, n) in (None, getattr(case, n)) for n in names)

    def cases(self) -> list[Case]:
        return [case for case in every_case() if self.speaks_of(case)]


TABLE = (
    Row(NATURAL, False, None, False, None, True, MOVES),
    Row(NATURAL, False, None, False, None, False, EFFECTS_RUN),
    Row(NATURAL, None, None, True, None, None, SIGNAL_CLEARED),
    Row(NATURAL, True, None, False, True, True, MOVES_WITH_SIGNAL),
    Row(NATURAL, True, None, False, False, None, STAYS),
    Row(CANCEL, None, False, None, None, None, STAYS),
    Row(CANCEL, None, True, False, None, True, MOVES),
    Row(CANCEL, None, True, False, None, False, EFFECTS_RUN),
    Row(CANCEL, None, True, True, None, None, SIGNAL_CLEARED),
    Row(OTHER, None, None, None, None, None, STAYS),
)
# What no row names: the gate is met and nothing leads on. As without the gate, the side effects run.
UNNAMED = Row(NATURAL, True, None, False, True, False, EFFECTS_RUN)


def every_case() -> Iterator[Case]:
    for source, *flags in product((NATURAL, CANCEL, OTHER), BOTH, BOTH, BOTH, BOTH, BOTH):
        yield Case(source, *flags)


def result_of(case: Case) -> str:
    (row,) = (row for row in (*TABLE, UNNAMED) if row.speaks_of(case))
    return row.result

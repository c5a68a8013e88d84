"""How often something may be told: the first at once, then once in so many seconds (spec: 08 section 1.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

FOLD_S: Final = 0.2  # at most five updates a second
REFRESH_S: Final = 2.0  # pages that are reading their lanes again are left to it


@dataclass(slots=True)
class Pace:
    every_s: float
    next_at: float = 0.0

    def is_due(self, now: float) -> bool:
        return self.next_at <= now

    def took(self, now: float, at_least_s: float = 0.0) -> None:
        """Something was told now."""
        self.next_at = now + max(self.every_s, at_least_s)


@dataclass(slots=True)
class BoardTurn:
    """What is known to have changed on a board and was not told yet."""

    keys: set[int] = field(default_factory=set)
    too_many: bool = False
    is_dirty: bool = False
    pace: Pace = field(default_factory=lambda: Pace(FOLD_S))

    def add(self, keys: Iterable[int], *, too_many: bool = False) -> None:
        self.keys.update(keys)
        self.too_many = self.too_many or too_many
        self.is_dirty = True

    def take(self) -> tuple[frozenset[int], bool]:
        """Hand over what is known; what is heard from now on is for the next turn."""
        taken = frozenset(self.keys), self.too_many
        self.keys, self.too_many, self.is_dirty = set(), False, False
        return taken

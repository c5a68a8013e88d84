"""The slow parts of a sweep: retention and the recount, a little in each pass (spec: 07 section 4).

Where each has come to is kept in this process's memory: a sweeper that starts begins anew, and two that run look at
the same rows twice, which costs a reading only. Pauses are measured by the process's own clock; what is old enough
to go, and what a counter should say, is the database's to tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from boards import tasks

REST_S: Final = 3_600.0  # once every row was looked at
RECOUNT_EVERY_S: Final = 10.0


@dataclass
class Round:
    """Goes through all rows by key, and starts again after a rest."""

    every_s: float = 0.0
    after_key: int = 0
    not_before: float = 0.0

    def go_on(self, part: Callable[[int], tuple[int, int | None]]) -> int:
        """Do the next part where it is time: `part(after_key)` answers what it did, and the key to go on from."""
        if time.monotonic() < self.not_before:
            return 0
        done, next_key = part(self.after_key)
        self.after_key = next_key or 0
        self.not_before = time.monotonic() + (REST_S if next_key is None else self.every_s)
        return done


_retention = Round()
_recount = Round(every_s=RECOUNT_EVERY_S)


def remove_old(limit: int) -> int:
    """Remove the next tasks that retention does not keep; how many. None where RETENTION_DAYS is 0."""
    days = settings.RETENTION_DAYS

    def part(after_key: int) -> tuple[int, int | None]:
        removed = tasks.remove_ended(days, limit=limit, after_key=after_key)
        return removed.tasks, removed.next_key

    return _retention.go_on(part) if days else 0


def recount(limit: int) -> int:
    """Recount the next sample; how many counters differ."""

    def part(after_key: int) -> tuple[int, int | None]:
        found = tasks.recount(after_key=after_key)
        return len(found.differences), found.next_key

    return _recount.go_on(part)


def begin_anew() -> None:
    """Forget where the rounds have come to, as a process that starts."""
    for each in (_retention, _recount):
        each.after_key, each.not_before = 0, 0.0

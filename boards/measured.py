"""What is measured in memory: durations in buckets, and what this process alone can tell of itself.

It knows no database and no format; `boards.live` writes what sockets and their listener do, and the metrics read it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate


@dataclass
class Durations:
    """How often something took how long: one count for each of `bounds` (seconds, each included) and one beyond."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def note(self, seconds: float) -> None:
        self.add(bisect_left(self.bounds, seconds), 1, seconds)

    def add(self, bucket: int, count: int, seconds: float) -> None:
        """Count `count` durations of one bucket that took `seconds` together."""
        self.counts[bucket] += count
        self.seconds += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """How many took no longer than each bound, the last one being all."""
        names = [*map(str, self.bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(list(self.counts))), strict=True))


@dataclass
class Here:
    """This web process. `hears`: whether its listener does; None until the first page has opened a socket."""

    sockets: int = 0
    hears: Callable[[], bool] | None = None
    notices: Durations = field(
        default_factory=lambda: Durations((0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0))
    )


here = Here()

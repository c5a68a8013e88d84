"""Where the time of a run went: queue, work, waiting on a person; as spans and as bars (spec: 08 "Run page").

Pure: rows and `now` in, spans out. A span never overlaps another of its task, so the sums add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from boards.models import Attempt, Hold, Task
from boards.states import HoldState, Status

Kind = Literal["queue", "work", "person"]
_TICKS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800)
_LEAST: Final = 0.8  # per cent; a second of work in a day is still to be seen


@dataclass(frozen=True, slots=True)
class Span:
    kind: Kind
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True, slots=True)
class Bar:
    """A span as SVG geometry: `x` and `width` in per cent of the whole."""

    kind: Kind
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class Tick:
    x: str
    seconds: int


@dataclass(frozen=True, slots=True)
class TimeRow:
    """One step. `total`: seconds that the run has stood in it; `sums`: seconds by kind."""

    key: str
    name: str
    bars: tuple[Bar, ...]
    total: float
    sums: dict[str, float]
    inner: bool = False  # a work inside the step of the row above


@dataclass(frozen=True, slots=True)
class Axis:
    """The time from the start of a run to its end, or to now."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return max((self.end - self.start).total_seconds(), 1.0)

    def at(self, moment: datetime) -> float:
        part = (moment - self.start).total_seconds() / self.seconds * 100
        return min(max(part, 0.0), 100.0)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """At most four between the ends, at round lengths of time, none so near the end that its words would meet."""
        every = next((tick for tick in _TICKS if self.seconds / tick <= 5), int(self.seconds / 4) or 1)
        marks = range(every, int(self.seconds * 0.88), every)
        return tuple(Tick(_percent(mark / self.seconds * 100), mark) for mark in marks)


def bars(spans: Iterable[Span], axis: Axis) -> tuple[Bar, ...]:
    made = []
    for span in sorted(spans, key=lambda span: span.start):
        x = min(axis.at(span.start), 100 - _LEAST)
        made.append(Bar(span.kind, _percent(x), _percent(max(axis.at(span.end) - x, _LEAST))))
    return tuple(made)


def sums(spans: Iterable[Span]) -> dict[str, float]:
    told = {"queue": 0.0, "work": 0.0, "person": 0.0}
    for span in spans:
        told[span.kind] += span.seconds
    return told


def step_spans(holds: Iterable[Hold], now: datetime) -> list[Span]:
    """What a step itself asks: a person has it from the question to its end."""
    return [Span("person", start, end) for start, end in _asked(holds, now)]


def task_spans(task: Task, attempts: Sequence[Attempt], holds: Iterable[Hold], now: datetime) -> list[Span]:
    """The life of a task: it queues, is worked, waits for an answer in between, and may wait for its check."""
    spans: list[Span] = []
    at, handed_in = task.created_at, False
    for attempt in sorted(attempts, key=lambda attempt: attempt.number):
        spans.append(Span("person" if handed_in else "queue", at, attempt.started_at))
        at = attempt.ended_at or now
        spans.append(Span("work", attempt.started_at, at))
        handed_in = attempt.ending == Attempt.Ending.HANDED_IN
    if handed_in or (not task.is_ended and task.status != Status.IN_PROGRESS):
        spans.append(Span("person" if handed_in else "queue", at, task.completed_at or now))
    elif not spans:
        spans.append(Span("queue", at, task.completed_at or now))
    for start, end in _asked(holds, now):
        spans = [*_without(spans, start, end), Span("person", start, end)]
    return [span for span in spans if span.end > span.start]


def _asked(holds: Iterable[Hold], now: datetime) -> list[tuple[datetime, datetime]]:
    """When somebody was asked, overlapping questions as one."""
    asked = sorted((h.asked_at, now if h.state == HoldState.OPEN else h.answered_at or now) for h in holds)
    joined: list[tuple[datetime, datetime]] = []
    for start, end in asked:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _without(spans: Iterable[Span], start: datetime, end: datetime) -> Iterable[Span]:
    for span in spans:
        if span.end <= start or span.start >= end:
            yield span
            continue
        if span.start < start:
            yield Span(span.kind, span.start, start)
        if span.end > end:
            yield Span(span.kind, end, span.end)


def _percent(value: float) -> str:
    return f"{value:.2f}%"

"""Where the time of a run went, worked out from rows; pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from boards.models import Attempt, Hold, Task
from boards.queries.run_time import Axis, Span, bars, sums, task_spans

START = datetime(2026, 11, 30, 9, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


NOW = at(60)


def task(status="in_progress", ended=None) -> Task:
    return Task(status=status, created_at=at(0), completed_at=at(ended) if ended is not None else None)


def attempt(number, start, end=None, ending="") -> Attempt:
    return Attempt(number=number, started_at=at(start), ended_at=at(end) if end is not None else None, ending=ending)


def asked(start, end=None) -> Hold:
    state = "open" if end is None else "answered"
    return Hold(state=state, asked_at=at(start), answered_at=at(end) if end is not None else None)


def told(spans) -> list[tuple[str, float, float]]:
    minutes = [(s.kind, (s.start - START).seconds / 60, (s.end - START).seconds / 60) for s in spans]
    return sorted(minutes, key=lambda span: span[1])


@pytest.mark.parametrize(
    ("of", "attempts", "holds", "expected"),
    [
        (task("pending"), [], [], [("queue", 0, 60)]),
        (task(), [attempt(1, 5)], [], [("queue", 0, 5), ("work", 5, 60)]),
        (task("completed", 20), [attempt(1, 5, 20, "completed")], [], [("queue", 0, 5), ("work", 5, 20)]),
        (
            task(),
            [attempt(1, 5, 10, "failed"), attempt(2, 15)],
            [],
            [("queue", 0, 5), ("work", 5, 10), ("queue", 10, 15), ("work", 15, 60)],
        ),
        (task(), [attempt(1, 5)], [asked(20)], [("queue", 0, 5), ("work", 5, 20), ("person", 20, 60)]),
        (
            task(),
            [attempt(1, 5)],
            [asked(20, 30), asked(25, 40)],
            [("queue", 0, 5), ("work", 5, 20), ("person", 20, 40), ("work", 40, 60)],
        ),
        (task("pending"), [], [asked(0, 10)], [("person", 0, 10), ("queue", 10, 60)]),
        (
            task("needs_check"),
            [attempt(1, 5, 10, "handed_in")],
            [],
            [("queue", 0, 5), ("work", 5, 10), ("person", 10, 60)],
        ),
        (
            task("completed", 30),
            [attempt(1, 5, 10, "handed_in")],
            [],
            [("queue", 0, 5), ("work", 5, 10), ("person", 10, 30)],
        ),
        (task("cancelled", 8), [], [], [("queue", 0, 8)]),
    ],
)
def test_a_task_queues_is_worked_and_waits_on_people(of, attempts, holds, expected):
    spans = task_spans(of, attempts, holds, NOW)
    assert told(spans) == expected
    assert sum(sums(spans).values()) == sum((end - start) * 60 for _, start, end in expected)


def test_bars_are_per_cent_of_the_run_and_the_shortest_is_still_seen():
    axis = Axis(at(0), at(100))
    made = bars([Span("work", at(50), at(75)), Span("queue", at(99.99), at(100))], axis)
    assert [(bar.kind, bar.x, bar.width) for bar in made] == [
        ("work", "50.00%", "25.00%"),
        ("queue", "99.20%", "0.80%"),
    ]


@pytest.mark.parametrize(
    ("minutes", "ticks"),
    [(0.05, [1]), (63, [900, 1800, 2700]), (0, []), (60 * 24 * 30, [604800, 1209600, 1814400])],
)
def test_the_axis_is_marked_at_round_lengths(minutes, ticks):
    assert [tick.seconds for tick in Axis(at(0), at(minutes)).ticks] == ticks

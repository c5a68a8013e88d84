"""The transcript of a run: the lines of all its tasks and of the run itself, one page at a time (spec: 08 "Run page").

Ids are given before the commit, so a line may become visible after one with a higher id. Lines younger than
`UNSETTLED` are therefore read again with each refresh: they stand in a tail of their own, which is replaced whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from boards.models import FlowRun, TranscriptItem
from boards.queries.transcript import Line, line_of

PAGE: Final = 100
UNSETTLED: Final = timedelta(seconds=3)
_BY_PERSON: Final = frozenset({TranscriptItem.Kind.ANSWERED, TranscriptItem.Kind.STEER})


@dataclass(frozen=True, slots=True)
class RunLine:
    """A line and the step whose task said it; `step_name` is "" for the run's own lines."""

    line: Line
    step_name: str
    by_person: bool
    hold_id: int = 0


@dataclass(frozen=True, slots=True)
class Log:
    """Oldest first. `after`: the newest settled line, where a refresh goes on; `before`: the page above, or 0."""

    settled: tuple[RunLine, ...]
    tail: tuple[RunLine, ...]
    after: int
    before: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.settled and not self.tail


def run_log(
    run: FlowRun, steps: Mapping[int, str], now: datetime, *, after: int = 0, before: int = 0, own: bool = True
) -> Log:
    """One page: the newest lines, those after a cursor, or those before one.

    `steps`: task key -> name of its step; lines of other tasks are left out. `own`: with the run's own lines.
    """
    told = Q(task__in=list(steps))
    if own:
        told |= Q(session_id=run.session_id)
    items = TranscriptItem.objects.filter(told)
    if after:
        rows = list(items.filter(pk__gt=after).order_by("pk")[: PAGE * 5])
        return _split(rows, steps, now, after)
    newest = items.filter(pk__lt=before) if before else items
    rows = list(newest.order_by("-pk")[: PAGE + 1])
    more = len(rows) > PAGE
    rows = list(reversed(rows[:PAGE]))
    log = _split(rows, steps, now, 0)
    return Log(log.settled, log.tail, log.after, rows[0].pk if more else 0)


def _split(rows: Iterable[TranscriptItem], steps: Mapping[int, str], now: datetime, after: int) -> Log:
    settled: list[RunLine] = []
    tail: list[RunLine] = []
    for item in rows:
        shown = _line(item, steps)
        if tail or item.at > now - UNSETTLED:
            tail.append(shown)
        else:
            settled.append(shown)
            after = item.pk
    return Log(tuple(settled), tuple(tail), after)


def _line(item: TranscriptItem, steps: Mapping[int, str]) -> RunLine:
    hold = item.data.get("hold") if isinstance(item.data, dict) else 0
    name = steps.get(item.task_id or 0, "")
    return RunLine(line_of(item), name, item.kind in _BY_PERSON, hold if isinstance(hold, int) else 0)

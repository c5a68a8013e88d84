"""The log of one task, a page at a time (spec: 07 section 1.1, 08 section 2).

What an attempt reported of its progress is one line with its count, where the last report stands: a worker may report
every second, and what happened besides has to be found. No event is left out of the count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db.models import Count, F, Q, Window

from boards.models import Event, Member, Task
from boards.queries.task_words import EventLine, event_line

MAX_EVENTS: Final = 50
# The same as `task_words.is_report`, for the database.
_REPORTS: Final = Q(kind="task.progressed") & ~Q(data__has_key="kept_open_by")


@dataclass(frozen=True, slots=True)
class EventPage:
    """Newest first. `before`: the cursor of the next older page, or None."""

    lines: list[EventLine]
    before: int | None = None

    @property
    def newest(self) -> int:
        return self.lines[0].key if self.lines else 0


def events_page(task: Task, member: Member, *, before: int = 0, since: int = 0) -> EventPage:
    """The lines that are older than `before` and newer than `since`, where these are not 0; `member` reads them."""
    of_task = Event.objects.filter(task=task.pk)
    rows = of_task.exclude(_REPORTS).filter(pk__gt=since).order_by("-id")
    found = list((rows.filter(pk__lt=before) if before else rows)[: MAX_EVENTS + 1])
    times = Window(Count("pk"), partition_by=F("attempt"))
    last = of_task.filter(_REPORTS).annotate(times=times).order_by("attempt", "-id").distinct("attempt")
    found += [event for event in last if event.pk > since and not (before and event.pk >= before)]
    found.sort(key=lambda event: event.pk, reverse=True)
    lines = [event_line(event, member.user_id) for event in found[:MAX_EVENTS]]
    return EventPage(lines, lines[-1].key if len(found) > MAX_EVENTS else None)

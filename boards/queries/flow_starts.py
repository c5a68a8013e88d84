"""What starts a flow by itself, as its page lists it: schedules, and webhooks without their keys. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.formats import date_format
from django.utils.translation import gettext as _

from boards.flows import CronError, next_times
from boards.models import Flow, FlowRun, Schedule, User, Webhook

_NEXT: Final = 3


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """`next`: the next times as the clock of its zone shows them, none while it is paused."""

    number: int
    expression: str
    zone: str
    enabled: bool
    next: tuple[str, ...]
    next_at: datetime | None
    last_at: datetime | None
    last_run: FlowRun | None
    error: str
    author: str


@dataclass(frozen=True, slots=True)
class WebhookRow:
    number: int
    name: str
    kind: str
    public_id: str
    enabled: bool
    last_at: datetime | None
    last_run: FlowRun | None
    old_until: datetime | None
    error: str
    author: str

    @property
    def is_event(self) -> bool:
        return self.kind == Webhook.Kind.EVENT


def schedule_rows(flow: Flow) -> list[ScheduleRow]:
    """One query."""
    rows = Schedule.objects.filter(flow=flow).select_related("author", "last_run__flow").order_by("pk")
    return [
        ScheduleRow(
            row.pk,
            row.expression,
            row.zone,
            row.enabled,
            _times(row),
            row.next_at,
            row.last_at,
            row.last_run,
            row.error,
            _name(row.author),
        )
        for row in rows
    ]


def webhook_rows(flow: Flow, now: datetime) -> list[WebhookRow]:
    """One query, and one for each of their last runs."""
    rows = Webhook.objects.filter(flow=flow).select_related("author").order_by("pk")
    return [
        WebhookRow(
            row.pk,
            row.name,
            row.kind,
            row.public_id,
            row.enabled,
            row.last_at,
            _last_run(row),
            row.old_until if row.old_until is not None and row.old_until > now else None,
            row.error,
            _name(row.author),
        )
        for row in rows
    ]


def _last_run(row: Webhook) -> FlowRun | None:
    last = row.calls.filter(run__isnull=False).select_related("run__flow").order_by("-pk").first()
    return last.run if last is not None else None


def _times(row: Schedule) -> tuple[str, ...]:
    """The stored moment, and those that follow it."""
    if row.next_at is None:
        return ()
    try:
        later = next_times(row.expression, row.zone, row.next_at, _NEXT - 1)
    except CronError:
        return ()
    here = row.next_at.astimezone(later[0].tzinfo)
    return tuple(date_format(each, "D j M Y, H:i") for each in (here, *later))


def _name(author: User | None) -> str:
    return author.display if author is not None else _("nobody any more")

"""Which drains have fallen silent, by the database's clock: one answer for cards, the task page and the sweeper.

A drain beats every five seconds; after three beats that did not come people are told. It decides nothing: whose
attempt is taken up again is decided by leases alone (spec: 03, 3.6).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.db.models import Case, OuterRef, Q, QuerySet, Subquery, TextField, When
from django.db.models.functions import Cast, Now

from boards.models import Process
from boards.states import Status

SILENT_AFTER: Final = timedelta(seconds=15)


def silent_drains() -> QuerySet[Process]:
    """Drains that signed off or have not beaten for `SILENT_AFTER`; their rows are kept for some minutes."""
    silent = Q(stopped_at__isnull=False) | Q(beat_at__lt=Now() - SILENT_AFTER)
    return Process.objects.filter(silent, kind=Process.Kind.DRAIN)


def silent_since(drain: str) -> Any:
    """For a query over tasks: since when the drain that works on a leased task is silent, else None.

    `drain`: the annotation that holds the drain's id as text.
    """
    named = silent_drains().annotate(name=Cast("pk", TextField())).filter(name=OuterRef(drain))
    leased = Q(status=Status.IN_PROGRESS, lease_until__isnull=False)
    return Case(When(leased, then=Subquery(named.values("beat_at")[:1])))

"""What time it is by the database's clock, for the words of pages: "overdue", "in 3 h", "due soon".

Nothing is decided here; whatever depends on a time is decided in the database. Reads that come first on a page bring
the moment along (`heard`), and between two of them the process counts on by a clock that nobody can set.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.db.models.functions import Now
from django.utils import timezone

_heard: tuple[datetime, float] | None = None


def annotation() -> Now:
    """For a query that a page reads first; give its value to `heard`."""
    return Now()


def heard(moment: datetime) -> None:
    """The database said this just now."""
    global _heard
    _heard = (moment, time.monotonic())


def now() -> datetime:
    """The database's time; the process's own only where the database was never heard."""
    if _heard is None:
        return timezone.now()
    moment, at = _heard
    return moment + timedelta(seconds=time.monotonic() - at)

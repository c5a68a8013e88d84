"""How many calls a caller may make in a minute, counted in the database: all web processes share one count.

A count is one statement on one row of its own, outside of engine transactions; nothing of the engines depends on it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import connection
from django.db.models.functions import Now

from boards.models import CallCount

WINDOW_S: Final = 60
FORGOTTEN: Final = timedelta(hours=1)

_WINDOW: Final = f"interval '{WINDOW_S} seconds'"
_COUNT: Final = f"""
    insert into boards_callcount as seen (caller, begun_at, count) values (%(caller)s, statement_timestamp(), 1)
    on conflict (caller) do update set
        count = case when seen.begun_at <= statement_timestamp() - {_WINDOW} then 1 else seen.count + 1 end,
        begun_at = case when seen.begun_at <= statement_timestamp() - {_WINDOW}
                        then statement_timestamp() else seen.begun_at end
    returning count, extract(epoch from begun_at + {_WINDOW} - statement_timestamp())"""


def seconds_to_wait(caller: str, limit: int) -> int:
    """Count one call; 0 where it is within `limit` for the window, else whole seconds until the window is over."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"caller": caller[:100]})
        count, left = cursor.fetchone()
    return 0 if count <= limit else max(1, int(left) + 1)


def forget_counts(limit: int) -> int:
    """Remove counts of callers who have been away; how many."""
    old = CallCount.objects.filter(begun_at__lt=Now() - FORGOTTEN).values("pk")[:limit]
    return CallCount.objects.filter(pk__in=old).delete()[0]

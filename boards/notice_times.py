"""When a change notice was sent, by the database's clock, so that whoever hears it knows how long it was under way.

It sends and hears nothing; `boards.live_notices` does.
"""

from __future__ import annotations

import re
import time
from typing import Any, Final

import psycopg

# A payload with the moment in front, as SQL over its one parameter: a JSON object that is not empty.
STAMPED: Final = """'{"t":' || extract(epoch from clock_timestamp()) || ',' || substr(%s::text, 2)"""
_SENT_AT: Final = re.compile(r'\{"t":(\d{1,12}\.\d{1,6})')  # the rest of the payload need not be read for it


def sent_at(payload: str) -> float | None:
    """Seconds since 1970; None where it does not say, as that of an older process."""
    found = _SENT_AT.match(payload)
    return float(found[1]) if found else None


class DatabaseClock:
    """The database's time between two looks at it, by this process's own clock; right to half of a look's way."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._read_at = float("-inf")

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._read_at

    def now(self) -> float:
        """Seconds since 1970."""
        return time.monotonic() + self._ahead_s

    def read(self, connection: psycopg.Connection[Any]) -> None:
        before = time.monotonic()
        (told,) = connection.execute("select extract(epoch from clock_timestamp())::float8").fetchone() or (before,)
        self._read_at = time.monotonic()
        self._ahead_s = told - (before + self._read_at) / 2

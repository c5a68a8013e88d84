"""What time it is by the database's clock, for what has to be reckoned before it is written."""

from __future__ import annotations

from datetime import datetime

from django.db import connection


def now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("select statement_timestamp()")
        (moment,) = cursor.fetchone()
    assert isinstance(moment, datetime)
    return moment

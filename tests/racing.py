"""Starts jobs at the same moment, each in a thread with a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections, connection

from boards import errors


def at_once(*jobs: Callable[[], Any]) -> list[Any]:
    """Run the jobs in threads that start together, each on a connection of its own; an exception is an answer."""
    gate = threading.Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> Any:
        close_old_connections()
        gate.wait()
        try:
            return job()
        except errors.Refusal as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


def waiting() -> int:
    """How many sessions of this database wait for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])

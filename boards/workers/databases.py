"""The database as a thing that may be away: what its absence looks like, and how long-lived threads live
with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, close_old_connections, connection

Value = TypeVar("Value")

# A connection that was lost, refused or closed; and deadlocks that outlived their repeats.
AWAY: Final = (OperationalError, InterfaceError)
PAUSES_S: Final = (0.05, 2.0)


def let_go() -> None:
    """Drop this thread's connection where it is broken or too old; the next query opens a new one."""
    close_old_connections()


async def tend_async() -> None:
    """The same for the one thread in which async code of Django reaches the database."""
    await sync_to_async(close_old_connections)()


@contextmanager
def own_connection() -> Iterator[None]:
    """For code that runs now and then in a thread of a pool: it finds a connection that works."""
    let_go()
    try:
        yield
    finally:
        let_go()


def patiently(work: Callable[[], Value], give_up: Callable[[], bool], patience_s: float) -> Value:
    """Do `work`, again and again while the database is away; raises at last, or as soon as `give_up` says
    so.
    """
    deadline = time.monotonic() + patience_s
    pause = PAUSES_S[0]
    while True:
        try:
            return work()
        except AWAY:
            if connection.in_atomic_block or give_up() or time.monotonic() > deadline:
                raise
            let_go()
        time.sleep(pause)
        pause = min(2 * pause, PAUSES_S[1])

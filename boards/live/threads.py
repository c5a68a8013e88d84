"""A thread with a database connection of its own, for work that the event loop must not wait on (spec: 08, 1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from django.db import close_old_connections, connections

KEPT_S: Final = 60.0
Args = ParamSpec("Args")
Result = TypeVar("Result")


class DatabaseThread:
    """Runs one call after the other. Its connection is kept between calls and given up when it is broken or old.

    That is so whatever CONN_MAX_AGE says.
    """

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs) -> Result:
        call = partial(_with_connection, partial(work, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def stop(self) -> None:
        """Wait for the running call, close the connection and end the thread."""
        self._executor.submit(connections.close_all)
        self._executor.shutdown(wait=True)


def _with_connection(call: Callable[[], Result]) -> Result:
    close_old_connections()
    try:
        return call()
    except BaseException:
        close_old_connections()
        raise
    finally:
        _keep()


def _keep() -> None:
    now = time.monotonic()
    for connection in connections.all(initialized_only=True):
        if connection.close_at is not None and connection.close_at <= now:  # made just now, to be closed at once
            connection.close_at = now + KEPT_S

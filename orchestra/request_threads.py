"""The threads that pages are made in, each with a database connection that the next request finds open.

Left to itself Django makes a thread for each request, and a new connection with it: a fifth of a page's time. The
thread that was used last is taken first, so that no more of them stay than are needed at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from asgiref.sync import ThreadSensitiveContext
from django.db import close_old_connections, connections

KEPT: Final = 8  # idle threads, however many there were at once
KEPT_S: Final = 60.0


class RequestThreads:
    """Lends a thread to one request at a time. Belongs to one event loop."""

    def __init__(self) -> None:
        self._idle: list[tuple[float, ThreadPoolExecutor]] = []  # the one used last stands last
        self._looks_again = False

    @contextlib.asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """The synchronous parts of what is awaited inside run in one thread."""
        thread = self._idle.pop()[1] if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        try:
            async with ThreadSensitiveContext(executor=thread):
                yield
        finally:
            self._take_back(thread)

    def _take_back(self, thread: ThreadPoolExecutor) -> None:
        """Once it is free: where the browser has gone, the view may still be at work."""
        loop = asyncio.get_running_loop()
        done = thread.submit(close_old_connections)
        done.add_done_callback(lambda _: loop.call_soon_threadsafe(self._keep, thread))

    def _keep(self, thread: ThreadPoolExecutor) -> None:
        if len(self._idle) >= KEPT:
            _end(thread)
            return
        self._idle.append((time.monotonic(), thread))
        if not self._looks_again:
            self._look_again()

    def _look_again(self) -> None:
        """End those that nobody needed for a while, now and for as long as there are any."""
        while self._idle and self._idle[0][0] <= time.monotonic() - KEPT_S:
            _end(self._idle.pop(0)[1])
        self._looks_again = bool(self._idle)
        if self._looks_again:
            asyncio.get_running_loop().call_later(KEPT_S, self._look_again)


def _end(thread: ThreadPoolExecutor) -> None:
    thread.submit(connections.close_all)
    thread.shutdown(wait=False)

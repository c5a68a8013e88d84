"""The threads that pages are made in, each with a database connection that the next request finds open.

Left to itself Django makes a thread for each request, and a new connection with it: a fifth of a page's time. The
thread that was used last is taken first, so that no more of them stay than are needed at the same time.

None of them keeps the process from ending: one whose request is cut off by the server's end waits for a loop that runs
no more, and would wait for ever.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from asgiref.sync import ThreadSensitiveContext
from django.db import close_old_connections, connections

KEPT: Final = 8  # idle threads, however many there were at once
KEPT_S: Final = 60.0
PATIENCE_S: Final = 5.0  # at the end of the process, for what is at work

Args = ParamSpec("Args")
Result = TypeVar("Result")


class RequestThread(Executor):
    """One thread that does one job after the other, and ends with the process whatever it does then."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="request", daemon=True)
        self._thread.start()
        self._last: Future[Any] | None = None
        _threads.add(self)

    def submit(self, fn: Callable[Args, Result], /, *args: Args.args, **kwargs: Args.kwargs) -> Future[Result]:
        future: Future[Result] = Future()
        self._last = future
        self._jobs.put(functools.partial(_do, future, functools.partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End once what was submitted is done; `wait` for that."""
        self._jobs.put(None)
        if wait:
            self._thread.join()

    def finish(self, seconds: float) -> None:
        """Wait so long for what was submitted."""
        if self._last is not None and not self._last.done():
            with contextlib.suppress(Exception):
                self._last.exception(seconds)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job


def _do(future: Future[Result], job: Callable[[], Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)


def _finish() -> None:
    until = time.monotonic() + PATIENCE_S
    for thread in list(_threads):
        thread.finish(max(0.0, until - time.monotonic()))


_threads: weakref.WeakSet[RequestThread] = weakref.WeakSet()
atexit.register(_finish)


class RequestThreads:
    """Lends a thread to one request at a time. Belongs to one event loop."""

    def __init__(self) -> None:
        self._idle: list[tuple[float, RequestThread]] = []  # the one used last stands last
        self._looks_again = False

    @contextlib.asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """The synchronous parts of what is awaited inside run in one thread."""
        thread = self._idle.pop()[1] if self._idle else RequestThread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                yield
        finally:
            self._take_back(thread)

    def _take_back(self, thread: RequestThread) -> None:
        """Once it is free: where the browser has gone, the view may still be at work."""
        loop = asyncio.get_running_loop()
        done = thread.submit(close_old_connections)
        done.add_done_callback(lambda _: loop.call_soon_threadsafe(self._keep, thread))

    def _keep(self, thread: RequestThread) -> None:
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


def _end(thread: RequestThread) -> None:
    thread.submit(connections.close_all)
    thread.shutdown(wait=False)

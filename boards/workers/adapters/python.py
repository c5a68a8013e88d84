"""Runs registered Python functions: async ones on one event loop of the drain, sync ones in a pool of
threads.

No Django here: the runner passes what has to stand around a call (database connections), and the port does
the rest (spec: 03 section 2).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from boards.workers.adapters import (
    Asked,
    EndedForGood,
    Ending,
    Failed,
    Finished,
    Job,
    OnEnd,
    Running,
    StoppedEarly,
)
from boards.workers.adapters.pool import DaemonPool
from boards.workers.protocol import (
    WORKERS,
    EndsForGood,
    Port,
    Registered,
    Stopped,
    Suspended,
    SyncWorkerTask,
    WorkerTask,
)

Around = Callable[[], AbstractContextManager[Any]]
Tend = Callable[[], Awaitable[None]]


def _nothing() -> None:
    """For hooks that nobody set."""


async def _tend_nothing() -> None:
    """For hooks that nobody set."""


class PythonAdapter:
    """`threads` bounds the sync workers that run at once; `around` is entered in the thread of each of them.

    `tend` is awaited on the loop now and then, `at_end` called in each thread that leaves.
    """

    def __init__(
        self,
        threads: int,
        around: Around = contextlib.nullcontext,
        tend: Tend = _tend_nothing,
        at_end: Callable[[], None] = _nothing,
    ) -> None:
        self._around, self._tend = around, tend
        self._sync_workers = DaemonPool(threads, "worker", at_end)
        # What async workers report: short calls, so few threads (and few connections) serve many workers.
        self._ports = DaemonPool(min(threads, 8), "report", at_end)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beginning: deque[Callable[[], None]] = deque()
        self._begins_soon = False
        self._probed_at: float | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that all async workers share; its thread starts with the first of them."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="async-workers", daemon=True).start()
        return self._loop

    def silent_for(self) -> float:
        """Seconds since the loop last answered; call it now and then, each call asks it again."""
        now = time.monotonic()
        if self._loop is not None and self._probed_at is None:
            self._probed_at = now
            self._loop.call_soon_threadsafe(self._answer)
        return 0.0 if self._probed_at is None else now - self._probed_at

    def _answer(self) -> None:
        self._probed_at = None
        self._tending = asyncio.ensure_future(self._tend())

    def can_run(self, config: Mapping[str, Any]) -> bool:
        return config.get("worker") in WORKERS

    def start(self, job: Job, on_end: OnEnd) -> Running:
        registered = WORKERS.get(str(job.config.get("worker", "")))
        if registered is None:
            on_end(Failed(_unknown(job.config.get("worker"))))
            return _Nothing()
        if registered.is_async:
            run = _AsyncRun(self.loop, self._ports, registered, job, on_end)
            self._begin_soon(run.begin)
            return run
        return _SyncRun(self._sync_workers, self._around, registered, job, on_end)

    def _begin_soon(self, begin: Callable[[], None]) -> None:
        """On the loop, which is woken once for all that begin at a time."""
        self._beginning.append(begin)
        if not self._begins_soon:
            self._begins_soon = True
            self.loop.call_soon_threadsafe(self._begin_all)

    def _begin_all(self) -> None:
        self._begins_soon = False  # before the look: what is added from now on wakes the loop again
        while self._beginning:
            self._beginning.popleft()()

    def close(self) -> None:
        self._sync_workers.shutdown()
        self._ports.shutdown()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)


class _Nothing:
    can_be_killed = True
    shares_loop = False

    def cancel(self) -> None:
        """There is nothing to stop."""

    kill = cancel


class _AsyncRun:
    """A task of the event loop. Only a worker that never awaits, or swallows the cancel, does not end by it."""

    can_be_killed = False
    shares_loop = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ports: DaemonPool,
        registered: Registered,
        job: Job,
        on_end: OnEnd,
    ) -> None:
        self._loop, self._ports, self._registered = loop, ports, registered
        self._job, self._on_end = job, on_end
        self._task: asyncio.Task[Ending] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    kill = cancel

    def begin(self) -> None:
        self._task = self._loop.create_task(self._work(), context=self._job.context)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Ending]) -> None:
        # A task that is cancelled before its first step never enters its own code.
        self._on_end(StoppedEarly() if task.cancelled() else task.result())

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> Ending:
        # Nothing may leave this coroutine: a SystemExit would end the loop that all workers share.
        try:
            task = WorkerTask(self._job.facts, self._job.port, self._ports)
            return Finished(await self._registered.function(task))
        except asyncio.CancelledError:
            return StoppedEarly() if self._cancelled else Failed("The worker cancelled itself.")
        except BaseException as error:
            return ending_of(error)


class _SyncRun:
    """A call in a thread. It cannot be ended from outside: its next word to the port raises `Stopped`."""

    can_be_killed = False
    shares_loop = False

    def __init__(self, threads: DaemonPool, around: Around, registered: Registered, job: Job, on_end: OnEnd) -> None:
        self._stop = threading.Event()
        self._around, self._registered = around, registered
        self._job, self._on_end = job, on_end
        threads.submit(job.context.run, self._work)

    def cancel(self) -> None:
        self._stop.set()

    kill = cancel

    def _work(self) -> None:
        if self._stop.is_set():
            self._on_end(StoppedEarly())
            return
        try:
            with self._around():
                port = _StoppablePort(self._job.port, self._stop)
                ending: Ending = Finished(self._registered.function(SyncWorkerTask(self._job.facts, port)))
        except BaseException as error:
            ending = ending_of(error)
        self._on_end(ending)


class _StoppablePort:
    """A port that stops its worker at the next word."""

    def __init__(self, port: Port, stop: threading.Event) -> None:
        self._port, self._stop = port, stop

    def __getattr__(self, name: str) -> Any:
        if self._stop.is_set():
            raise Stopped
        return getattr(self._port, name)


def ending_of(error: BaseException) -> Ending:
    """What a worker's exception means for its task."""
    match error:
        case Suspended():
            return Asked()
        case Stopped():
            return StoppedEarly()
        case EndsForGood():
            return EndedForGood(error.task_id, str(error), error.ending)
        case SystemExit():
            return Failed(f"The worker called sys.exit({error.code!r}). Return its result, or raise an error.")
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Failed(words, "".join(traceback.format_exception(error)))


def _unknown(name: Any) -> str:
    known = ", ".join(sorted(WORKERS)) or "none"
    return f"No Python worker is registered as {name!r} on this host. Registered here: {known}."

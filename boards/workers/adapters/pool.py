"""A pool of daemon threads: a worker that never ends must not keep the drain from ending (spec: 03 section
3.2).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any

_Work = Callable[[], None]


class DaemonPool(Executor):
    """Up to `size` threads, started when needed and kept; `concurrent.futures` would wait for each of them
    at exit.
    """

    def __init__(self, size: int, name: str, at_end: Callable[[], None] = lambda: None) -> None:
        """`at_end` is called in each thread when it leaves, so that it can give back what it holds."""
        self._size, self._name, self._at_end = size, name, at_end
        self._todo: SimpleQueue[_Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._waiting = 0  # threads without work, less the work that is queued for them

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` in a thread; its result or BaseException is on the future."""
        future: Future[Any] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result = fn(*args, **kwargs)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)

        with self._lock:
            self._waiting -= 1
            if self._waiting < 0 and self._threads < self._size:
                self._threads += 1
                self._waiting += 1
                threading.Thread(target=self._serve, name=f"{self._name}-{self._threads}", daemon=True).start()
        self._todo.put(work)
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Let idle threads end; one that works ends after its work."""
        with self._lock:
            for _ in range(self._threads):
                self._todo.put(None)

    def _serve(self) -> None:
        while (work := self._todo.get()) is not None:
            work()
            del work
            with self._lock:
                self._waiting += 1
        self._at_end()

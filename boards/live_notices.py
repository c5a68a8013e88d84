"""Change notices: sent after the commit (ids only, folded), and the thread that listens (spec: 07 section 1.2).

It owns the channel `orchestra` and nothing else: a notice is a hint, so losing all of them costs seconds and never
correctness. It knows no sockets and no drain; both subscribe to a `Listener`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import queue
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from boards import notice_times

log = logging.getLogger(__name__)

CHANNEL = "orchestra"
PAYLOAD_BYTES = 7_900  # the database refuses 8,000
FOLD_S = 0.010
IDLE_S = 0.5  # the sending thread gives its connection back after that long without work
LOOK_BACK = 8  # how many callbacks of a transaction are searched for one of ours
ALIVE_S = 30.0  # a silent connection is asked whether it still lives
BACKOFF_S = (0.1, 5.0)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something changed. `gap`: any number of notices may have been lost, so look at everything.

    `task_keys` and `run_ids` may be empty although tasks changed: then the board itself has to be read.
    """

    board_id: int | None = None
    task_keys: frozenset[int] = frozenset()
    run_ids: frozenset[int] = frozenset()
    user_ids: frozenset[int] = frozenset()
    process: bool = False
    gap: bool = False


GAP = Notice(gap=True)
Callback = Callable[[Notice], None]


def changed(
    board_id: int | None,
    *,
    task_key: int | None = None,
    run_id: int | None = None,
    process: bool = False,
    user_id: int | None = None,
) -> None:
    """Announce, once the running transaction has committed, that something changed; after a rollback nothing.

    `process`: a drain or sweeper came, went or changed its load. `user_id`: what a user may do changed (signed out,
    deactivated, another role). Cheap enough for the hot path: one set per transaction is filled and handed on once.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    changes = _collecting(connection)
    if changes is None:
        changes = _Changes()
        changes.add(board_id, task_key, run_id, process, user_id)
        connection.on_commit(changes.hand_over, robust=True)
    else:
        changes.add(board_id, task_key, run_id, process, user_id)


def changed_all(changed_rows: Iterable[tuple[int | None, int | None, int | None]]) -> None:
    """`changed` for many (board, task key, run)."""
    connection = connections[DEFAULT_DB_ALIAS]
    collecting = _collecting(connection)
    changes = _Changes() if collecting is None else collecting
    for board_id, task_key, run_id in changed_rows:
        changes.add(board_id, task_key, run_id, process=False, user=None)
    if collecting is None:
        connection.on_commit(changes.hand_over, robust=True)


@contextlib.contextmanager
def sent_aside() -> Iterator[None]:
    """Inside the block this process sends from a thread of its own also what would go out at once: for one whose next
    step is worth more than the notice of its last.
    """
    _notifier.aside = True
    try:
        yield
    finally:
        _notifier.aside = False
        close()  # the thread would stay


def close() -> None:
    """Send what is still folded and end the sending thread; a later change starts it again."""
    _notifier.close()


class Listener(threading.Thread):
    """Hears the channel on a connection of its own and tells each notice to the subscribers, in this thread.

    Every time it begins to hear, the first time included, it tells a gap. `listening` says whether it hears now;
    with LISTEN off it never does, and those that wait on it poll. An async listener in daphne's loop crashes at
    SIGTERM (engineering notes, section 4). `took` hears of each notice how many seconds it was under way.
    """

    def __init__(self, name: str = "listener", *, took: Callable[[float], None] | None = None) -> None:
        super().__init__(name=name, daemon=True)
        self.listening = False
        self._took = took
        self._clock = notice_times.DatabaseClock()
        self._callbacks: list[Callback] = []
        self._stopping = threading.Event()
        self._woken, self._waker = socket.socketpair()

    def subscribe(self, callback: Callback) -> None:
        """`callback(notice)` must be quick and thread-safe; what it raises is logged."""
        self._callbacks.append(callback)

    def stop(self, timeout: float | None = 5.0) -> None:
        """End the thread and close its connection."""
        self._stopping.set()
        self._waker.send(b"x")
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout)

    def run(self) -> None:
        failures = 0
        while settings.LISTEN and not self._stopping.is_set():
            try:
                self._hear()
            except (psycopg.Error, OSError) as error:
                failures = 0 if self.listening else failures + 1
                if failures <= 1:
                    log.warning("The listener lost the database and works on by polling: %s", error)
            finally:
                self.listening = False
            least, most = BACKOFF_S
            pause = min(most, least * 2 ** min(failures, 10))
            self._stopping.wait(pause * random.uniform(0.5, 1))  # noqa: S311 (jitter, not a secret)

    def _hear(self) -> None:
        with contextlib.closing(_own_connection()) as connection, selectors.DefaultSelector() as selector:
            connection.execute(f"listen {CHANNEL}")
            self._clock = notice_times.DatabaseClock()
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            self.listening = True
            log.info("The listener hears change notices")
            self._tell(GAP)
            while not self._stopping.is_set():
                if self._took is not None and self._clock.age_s >= ALIVE_S:
                    self._clock.read(connection)
                if not selector.select(ALIVE_S):
                    connection.execute("select 1")
                for heard in connection.notifies(timeout=0):
                    if self._took is not None and (sent_at := notice_times.sent_at(heard.payload)) is not None:
                        self._took(max(0.0, self._clock.now() - sent_at))
                    for notice in parse(heard.payload):
                        self._tell(notice)

    def _tell(self, notice: Notice) -> None:
        for callback in self._callbacks:
            try:
                callback(notice)
            except Exception:
                log.exception("A subscriber of the listener failed")


class Inbox:
    """What a loop that sleeps between its passes waits on: notices, or a `wake` from a signal handler."""

    def __init__(self, listener: Listener | None = None) -> None:
        self._queue: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()  # its `put` may interrupt itself
        if listener is not None:
            listener.subscribe(self._queue.put)

    def wake(self) -> None:
        self._queue.put(None)

    def wait(self, timeout: float) -> list[Notice]:
        """Sleep up to `timeout` seconds; answers what came, which is nothing after a timeout or a `wake`."""
        found: list[Notice | None] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._queue.get(timeout=max(0.0, timeout)))
            while True:
                found.append(self._queue.get_nowait())
        return [notice for notice in found if notice is not None]


def parse(payload: str) -> Iterator[Notice]:
    """The notices of one payload; a payload of another version or make is a gap."""
    try:
        told = json.loads(payload)
        if told.get("all"):
            yield GAP
        for board_id, (tasks, runs) in told.get("b", {}).items():
            yield Notice(int(board_id), frozenset(tasks), frozenset(runs))
        if told.get("r") or told.get("u") or told.get("p"):
            yield Notice(
                None, frozenset(), frozenset(told.get("r", ())), frozenset(told.get("u", ())), bool(told.get("p"))
            )
    except (ValueError, TypeError, AttributeError):
        yield GAP


class _Changes:
    """What changed, as ids: per board the tasks and runs; runs of no board; users; processes."""

    __slots__ = ("boards", "process", "runs", "users")

    def __init__(self) -> None:
        self.boards: dict[int, tuple[set[int], set[int]]] = {}
        self.runs: set[int] = set()
        self.users: set[int] = set()
        self.process = False

    def __bool__(self) -> bool:
        return bool(self.boards or self.runs or self.users or self.process)

    def add(self, board: int | None, task: int | None, run: int | None, process: bool, user: int | None) -> None:
        if board is not None:
            tasks, runs = self.boards.setdefault(board, (set(), set()))
            if task is not None:
                tasks.add(task)
            if run is not None:
                runs.add(run)
        elif run is not None:
            self.runs.add(run)
        if user is not None:
            self.users.add(user)
        self.process = self.process or process

    def merge(self, other: _Changes) -> None:
        for board, (tasks, runs) in other.boards.items():
            mine = self.boards.setdefault(board, (set(), set()))
            mine[0].update(tasks)
            mine[1].update(runs)
        self.runs |= other.runs
        self.users |= other.users
        self.process = self.process or other.process

    def hand_over(self) -> None:
        """Runs after the commit, on the thread and connection that committed."""
        if self:
            _notifier.take(self)

    def payload(self) -> str:
        """JSON under the database's limit: with every id, else with board ids alone, else only that much changed."""
        ids = {board: [sorted(tasks), sorted(runs)] for board, (tasks, runs) in self.boards.items()}
        alone: dict[int, list[list[int]]] = {board: [[], []] for board in self.boards}
        rest: dict[str, Any] = {"r": sorted(self.runs), "u": sorted(self.users), "p": int(self.process)}
        for told in ({"b": ids, **rest}, {"b": alone, **rest}):
            text = json.dumps({key: value for key, value in told.items() if value}, separators=(",", ":"))
            if len(text) <= PAYLOAD_BYTES:
                return text
        return '{"all":1}'


def _collecting(connection: BaseDatabaseWrapper) -> _Changes | None:
    """The set of this transaction that is still being filled.

    It counts only where its callback stands under the same savepoints: one that is rolled back takes its callbacks
    with it. Others' callbacks may stand in between, so a few are looked through.
    """
    if not connection.in_atomic_block:
        return None
    savepoints = set(connection.savepoint_ids)
    for under, callback, *_ in islice(reversed(connection.run_on_commit), LOOK_BACK):
        owner = getattr(callback, "__self__", None)
        if isinstance(owner, _Changes) and under == savepoints:
            return owner
    return None


class _Notifier:
    """Folds what this process sends: the first at once, then at most one in 10 ms, all boards together.

    `aside`: the first, too, is sent by the thread, which then stays.
    """

    def __init__(self) -> None:
        self.aside = False
        self._ready = threading.Condition(threading.Lock())
        self._pending = _Changes()
        self._sent_at = float("-inf")
        self._thread: threading.Thread | None = None
        self._closing = False

    def take(self, changes: _Changes) -> None:
        with self._ready:
            now = time.monotonic()
            if self._pending:
                self._pending.merge(changes)  # the thread is about to send
                if self._thread is None:  # it could not be started then
                    self._wake_thread()
                return
            if self.aside or now - self._sent_at < FOLD_S:
                self._pending.merge(changes)
                self._wake_thread()
                return
            self._sent_at = now
        _send(changes.payload())

    def close(self) -> None:
        with self._ready:
            thread, self._closing = self._thread, True
            self._ready.notify_all()
        if thread is not None:
            thread.join(2)
        self._closing = False

    def _wake_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._work, name="change-notices", daemon=True)
            with contextlib.suppress(RuntimeError):  # the interpreter is about to end, or there are no more threads
                thread.start()
                self._thread = thread
        self._ready.notify_all()

    def _work(self) -> None:
        try:
            while (payload := self._next()) is not None:
                # Its connection may have been cut while it rested; a second one is new.
                if not _send(payload):
                    _send(payload)
        finally:
            connections[DEFAULT_DB_ALIAS].close()

    def _next(self) -> str | None:
        """Waits for changes, then for the end of the 10 ms; None when idle, after which a new thread is started."""
        with self._ready:
            self._ready.wait_for(lambda: self._pending or self._closing, None if self.aside else IDLE_S)
            if not self._pending:
                self._thread = None
                return None
            while not self._closing and (left := self._sent_at + FOLD_S - time.monotonic()) > 0:
                self._ready.wait(left)
            changes, self._pending = self._pending, _Changes()
            self._sent_at = time.monotonic()
        return changes.payload()


# Its commit need not wait for the disk: no notice outlives the server.
_SEND: Final = f"select set_config('synchronous_commit', 'off', true), pg_notify(%s, {notice_times.STAMPED})"


def _send(payload: str) -> bool:
    """One statement of its own on this thread's connection; whether it went out. What cannot be sent is lost, as any
    notice may be.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    try:
        connection.ensure_connection()
        # Below Django's cursor: no query log, and a failure here says nothing about the caller's connection.
        connection.connection.execute(_SEND, [CHANNEL, payload])
    except Exception as error:
        log.warning("A change notice was not sent; pages and drains find the change by polling: %s", error)
        if threading.current_thread().name == "change-notices":
            connection.close()
        return False
    return True


def _own_connection() -> psycopg.Connection[Any]:
    """Past a pooler where DATABASE_DIRECT_URL says so: a pooler in transaction mode hands out no notices."""
    wanted = connections[DEFAULT_DB_ALIAS].get_connection_params()
    for name in ("cursor_factory", "context", "prepare_threshold"):
        wanted.pop(name, None)
    wanted["application_name"] = "orchestra listener"
    if not settings.DATABASE_DIRECT_URL:
        return psycopg.connect(**wanted, autocommit=True)
    rest = {name: wanted[name] for name in wanted if name not in {"dbname", "user", "password", "host", "port"}}
    return psycopg.connect(settings.DATABASE_DIRECT_URL, autocommit=True, **rest)


def _renew() -> None:
    """A child made by fork has no sending thread, and what its parent folded is the parent's to send."""
    global _notifier
    _notifier = _Notifier()


_notifier = _Notifier()
os.register_at_fork(after_in_child=_renew)
atexit.register(close)

"""Keeps the leases of running work, in a thread with a connection of its own: a worker that blocks loses
nobody else's.

Every third of a lease's span it is due; all due ones are renewed in one statement. A decline means that the
claim is lost, a database that is away means nothing: the next tick tries again (spec: 02 section 3.5). The
same thread says that the process lives.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from django.db import connection

from boards import tasks
from boards.tasks import Ticket
from boards.workers.databases import AWAY, let_go
from boards.workers.processes import BEAT_S

log = logging.getLogger(__name__)

AGAIN_S: Final = 0.5  # after the database was away; never later than the lease allows
TOGETHER: Final = 0.1  # what falls due within so much of its third is renewed with the others


@dataclass
class _Kept:
    ticket: Ticket
    third_s: float
    due: float
    lost: Callable[[], None]


class Renewals(threading.Thread):
    """`keep` a lease until `drop`. `lost` is called, in this thread, when the claim has moved on."""

    def __init__(self, beat: Callable[[], None] = lambda: None) -> None:
        super().__init__(name="renewals", daemon=True)
        self._beat = beat
        self._changed = threading.Condition()
        self._kept: dict[Hashable, _Kept] = {}
        self._next_beat = 0.0
        self._wakes_at = float("-inf")  # while it sleeps: until when, by the monotonic clock
        self._closing = False
        self._away = False

    def keep(self, name: Hashable, ticket: Ticket, span_ms: int, lost: Callable[[], None]) -> None:
        """Renew this lease from now on. `span_ms` is its committed span."""
        third_s = span_ms / 3000
        with self._changed:
            due = time.monotonic() + third_s
            self._kept[name] = _Kept(ticket, third_s, due, lost)
            if due < self._wakes_at:  # a wake for each claim would cost more than the renewals do
                self._changed.notify_all()

    def drop(self, name: Hashable) -> None:
        """Renew it no longer: its settling write is done."""
        with self._changed:
            self._kept.pop(name, None)

    def hurry(self) -> None:
        """Beat now: what the process row says has changed."""
        with self._changed:
            self._next_beat = 0.0
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def run(self) -> None:
        try:
            while not self._closing:
                self.tick()
                self._sleep()
        finally:
            connection.close()

    def tick(self) -> None:
        """Renew what is due, and beat when it is time."""
        try:
            self._renew_due()
            if time.monotonic() >= self._next_beat:
                self._next_beat = time.monotonic() + BEAT_S
                self._beat()
            self._away = False
        except AWAY as error:
            if not self._away:
                log.warning("Leases are not renewed while the database is away: %s", error)
            self._away = True
            self._next_beat = 0.0
            let_go()
        except Exception:
            log.exception("A tick of the renewals failed; the next one tries again")

    def _renew_due(self) -> None:
        with self._changed:
            now = time.monotonic()
            due = {name: kept for name, kept in self._kept.items() if kept.due - TOGETHER * kept.third_s <= now}
        if not due:
            return
        asked_at = time.monotonic()
        renewed = tasks.renew_leases([kept.ticket for kept in due.values()])
        for name, kept in due.items():
            if renewed.get(kept.ticket.task_key) is not None:
                kept.due = asked_at + kept.third_s
            elif self._forget(name, kept):
                kept.lost()

    def _forget(self, name: Hashable, kept: _Kept) -> bool:
        """Whether it was still kept: work that was settled meanwhile is not lost."""
        with self._changed:
            return self._kept.get(name) is kept and self._kept.pop(name) is kept

    def _sleep(self) -> None:
        with self._changed:
            if self._closing:
                return
            now = time.monotonic()
            next_due = min((kept.due for kept in self._kept.values()), default=now + BEAT_S)
            pause = AGAIN_S if self._away else min(next_due, self._next_beat) - now
            shortest = min((kept.third_s for kept in self._kept.values()), default=BEAT_S)
            pause = max(0.0, min(pause, shortest))
            self._wakes_at = now + pause
            self._changed.wait(pause)
            self._wakes_at = float("-inf")

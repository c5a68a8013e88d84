"""`keep_lease`: for code that claims by hand, renews the lease for as long as a block lasts (spec: 02 section 3.9).

A thread with a connection of its own renews every third of the committed span, one renewal at a time. A decline is a
loss, and the last renewal; a database that is away is none, the next tick tries again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from django.db import InterfaceError, OperationalError, close_old_connections, connection

from boards.models import Task
from boards.tasks.grants import owns, renew_leases
from boards.tasks.types import Ticket

log = logging.getLogger(__name__)

AGAIN_S: Final = 0.5


class keep_lease:
    """`with` or `async with keep_lease(ticket) as kept:`; the settling write belongs inside the block.

    `kept.lost` is set once the claim has moved on: what is written after that is declined. `on_lost` is called then, in
    the thread that renews. A row without a lease (one that a person works) needs no renewal.
    """

    def __init__(self, ticket: Ticket, *, on_lost: Callable[[], None] | None = None) -> None:
        self.ticket, self.lost = ticket, threading.Event()
        self._on_lost = on_lost
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        span_ms = Task.objects.filter(pk=self.ticket.task_key).values_list("lease_duration_ms", flat=True).first()
        if not owns(self.ticket):
            self._lose()
        elif span_ms is not None:
            name = f"lease of task {self.ticket.task_id}"
            self._thread = threading.Thread(target=self._keep, args=(span_ms / 3000,), name=name, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self._enter_in_thread)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _enter_in_thread(self) -> Self:
        try:
            return self.__enter__()
        finally:
            connection.close()

    def _keep(self, third_s: float) -> None:
        pause = third_s
        try:
            while not self._over.wait(pause):
                pause = third_s if self._renew() else min(AGAIN_S, third_s)
                if self.lost.is_set():
                    return
        finally:
            connection.close()

    def _renew(self) -> bool:
        """Whether the database answered."""
        try:
            kept = renew_leases([self.ticket])[self.ticket.task_key] is not None
        except (OperationalError, InterfaceError) as error:
            log.warning("The lease of task %s could not be renewed yet: %s", self.ticket.task_id, error)
            close_old_connections()
            return False
        if not kept and not self._over.is_set():  # what was settled inside the block is not lost
            self._lose()
        return True

    def _lose(self) -> None:
        self.lost.set()
        if self._on_lost is not None:
            self._on_lost()

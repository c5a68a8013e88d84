"""Leases of code that claims by hand, which nobody else renews (spec: 02 section 3): `renew_lease` moves one, and
`keep_lease` does it for as long as a block lasts.

A thread with a connection of its own renews every third of the committed span, one renewal at a time. A decline is a
loss, and the last renewal; a database that is away is none, the next tick tries again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Self

from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.db.models.functions import Now

from boards.locks import engine_transaction
from boards.models import Task
from boards.tasks import decisions, rows
from boards.tasks.claims import LARGEST_LEASE_MS, SMALLEST_LEASE_MS
from boards.tasks.grants import owns, renew_leases
from boards.tasks.types import Reason, Recorded, TaskWriteOutcome, Ticket

log = logging.getLogger(__name__)

AGAIN_S: Final = 0.5


def committed_lease_span(task: Task) -> timedelta | None:
    """What a renewal extends the lease by: as the claim committed it, whatever was written since. None without one."""
    return None if task.lease_duration_ms is None else timedelta(milliseconds=task.lease_duration_ms)


@engine_transaction
def renew_lease(
    task: Task | int, deadline: datetime, *, claim: Ticket, adopt_lapsed_lease: bool = False
) -> TaskWriteOutcome:
    """Move the lease to `deadline`, a moment by the database's clock, and nothing else; no change is published.

    `adopt_lapsed_lease`: one that has run out is taken back on the same attempt, while nobody else has taken the row.
    That is for a run that waited for its start longer than its lease; a worker that is at work never asks for it.
    Declines with `terminal`, `not-my-task` or `lost-claim`. Raises ValueError for a span out of range, and
    TaskNotFound.
    """
    row, now = rows.lock_one(task)
    if refusal := decisions.lost(claim, row, now, adopts=adopt_lapsed_lease):
        return refusal
    span_ms = (deadline - now) / timedelta(milliseconds=1)
    if not SMALLEST_LEASE_MS <= span_ms <= LARGEST_LEASE_MS:
        raise ValueError(f"A lease lasts {SMALLEST_LEASE_MS} to {LARGEST_LEASE_MS} ms from now on, not {span_ms:.0f}.")
    if row.lease_until is None:
        return TaskWriteOutcome(Recorded.UNCHANGED, row.status)  # it has none: nobody takes the row from its worker
    fenced = Task.objects.filter(pk=row.pk, grant_no=claim.grant_no, status=row.status)
    if not adopt_lapsed_lease:
        fenced = fenced.filter(lease_until__gt=Now())
    if not fenced.update(lease_until=deadline):
        return TaskWriteOutcome(Recorded.DECLINED, row.status, Reason.LOST_CLAIM, "The lease ran out.")
    return TaskWriteOutcome(Recorded.RECORDED, row.status)


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
        row = Task.objects.filter(pk=self.ticket.task_key).first()
        span = None if row is None else committed_lease_span(row)
        if not owns(self.ticket):
            self._lose()
        elif span is not None:
            name = f"lease of task {self.ticket.task_id}"
            self._thread = threading.Thread(target=self._keep, args=(span.total_seconds() / 3,), name=name, daemon=True)
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

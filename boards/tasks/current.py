"""The ticket of the task that the calling worker holds; None in all other code (spec: 01 section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from boards.tasks.types import Ticket

_claim: ContextVar[Ticket | None] = ContextVar("current_claim", default=None)


def current_claim() -> Ticket | None:
    return _claim.get()


@contextmanager
def working_under(ticket: Ticket) -> Iterator[None]:
    """Code inside the block works under this ticket; the runner wraps the worker with it."""
    token = _claim.set(ticket)
    try:
        yield
    finally:
        _claim.reset(token)


def set_claim(ticket: Ticket) -> None:
    """For a context that lives as long as one worker: everything that runs in it works under this ticket."""
    _claim.set(ticket)

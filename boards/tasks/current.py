"""The ticket of the task that the calling worker holds; None in all other code (spec: 01 section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from boards import turns
from boards.tasks.types import Ticket


def current_claim() -> Ticket | None:
    """The ticket of the calling worker's task, inline or behind the gate; None for a debt paid in its thread."""
    held = turns.holder()
    return held if isinstance(held, Ticket) else None


@contextmanager
def working_under(ticket: Ticket) -> Iterator[None]:
    """Code inside the block works under this ticket; the runner wraps the worker with it."""
    with turns.of(ticket):
        yield


def set_claim(ticket: Ticket) -> None:
    """For a context that lives as long as one worker: everything that runs in it works under this ticket."""
    turns.set_holder(ticket)

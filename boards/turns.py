"""Whose turn the running code belongs to: set for a worker, and for what it starts; pure, and no Django.

What is done here in a worker's thread on behalf of somebody else, a debt that is paid right after its commit above all,
belongs to no turn. `tasks.current_claim()` is how code asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_holder: ContextVar[object | None] = ContextVar("turn", default=None)


def holder() -> object | None:
    """What proves the turn, as it was set; None outside of any."""
    return _holder.get()


@contextmanager
def of(holder: object | None) -> Iterator[None]:
    """Code inside the block belongs to this turn, or to none."""
    token = _holder.set(holder)
    try:
        yield
    finally:
        _holder.reset(token)


def set_holder(holder: object) -> None:
    """For a context that lives as long as one worker: everything that runs in it belongs to this turn."""
    _holder.set(holder)

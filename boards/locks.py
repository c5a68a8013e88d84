"""The lock order of the whole product, and the one helper that runs an engine transaction (spec: 02 section 7).

Nobody takes a lock to the left of one it holds; `taking` checks that at run time. Every engine transaction is
repeated on deadlock and serialization failure, which is safe because every write is guarded.
"""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connection, transaction

Args = ParamSpec("Args")
Result = TypeVar("Result")

REPEATS = 5
_REPEATABLE = {"40P01", "40001"}


class Rank(IntEnum):
    """Left to right: what is locked first."""

    IDEMPOTENCY = 1
    FLOW_RUN = 2
    STEP_SLOTS = 3
    BOARD_ADVISORY = 4
    BOARD_COUNTER = 5
    ROSTER = 6
    TASK = 7
    ATTEMPT = 8
    HOLD = 9
    DEBT = 10
    EVENT = 11


class LockOrderError(AssertionError):
    """Code took a lock to the left of one that it holds; it would deadlock with code that obeys the order."""


class _Held(threading.local):
    depth = 0
    rank = 0


_held = _Held()


def taking(rank: Rank) -> None:
    """Note that a lock of `rank` is about to be taken in the running engine transaction."""
    if _held.depth and rank < _held.rank:
        raise LockOrderError(f"{rank.name} is locked after {Rank(_held.rank).name}; the order is in boards.locks.Rank.")
    if _held.depth:
        _held.rank = max(_held.rank, rank)


def joins_another() -> bool:
    """Whether an engine transaction is open already, whose locks stay whatever becomes of the next write."""
    return _held.depth > 0


def engine_transaction(work: Callable[Args, Result]) -> Callable[Args, Result]:
    """Run `work` in one transaction, repeated up to five times on 40P01 and 40001; nested calls join the outer one."""

    @functools.wraps(work)
    def wrapped(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        if _held.depth:
            return work(*args, **kwargs)
        return _run(functools.partial(work, *args, **kwargs))

    return wrapped


def engine_statement(work: Callable[Args, Result]) -> Callable[Args, Result]:
    """An engine transaction of one statement: it commits by itself, without a trip before it and one after, unless it
    joins an open transaction. Repeated in the same way.
    """

    @functools.wraps(work)
    def wrapped(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        if _held.depth:
            return work(*args, **kwargs)
        alone = connection.get_autocommit() and not connection.in_atomic_block
        return _run(functools.partial(work, *args, **kwargs), nullcontext if alone else transaction.atomic)

    return wrapped


def _run(work: Callable[[], Result], scope: Callable[[], AbstractContextManager[None]] = transaction.atomic) -> Result:
    joined = connection.in_atomic_block  # a caller's own transaction cannot be repeated from here
    for repeat in range(REPEATS + 1):
        _held.depth, _held.rank = 1, 0
        try:
            with scope():
                # First in line after the commit: what is paid there opens transactions of its own.
                transaction.on_commit(_release)
                return work()
        except OperationalError as error:
            if joined or repeat == REPEATS or sqlstate(error) not in _REPEATABLE:
                raise
        finally:
            _release()
        time.sleep(random.uniform(0.005, 0.02) * 2**repeat)  # noqa: S311 (jitter, not a secret)
    raise AssertionError("unreachable")


def _release() -> None:
    _held.depth, _held.rank = 0, 0


def sqlstate(error: BaseException) -> str:
    """The five-character code of a database error, or an empty string."""
    return getattr(error.__cause__, "sqlstate", None) or ""


def lock_board(board_id: int) -> None:
    """The board's advisory lock, for writes that add edges between existing tasks."""
    taking(Rank.BOARD_ADVISORY)
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(%s, %s)", [0x0B0A, board_id % 2**31])


def sorted_keys(keys: Iterable[int]) -> list[int]:
    """Keys in the one order in which rows are locked."""
    return sorted(set(keys))

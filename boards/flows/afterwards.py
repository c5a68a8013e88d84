"""What a transaction of the flow engine owes, collected while it works and written as its last act.

Debts stand last in the lock order, and a step that is entered locks what stands left of them. So whoever owes something
says `later`, and the debt is written when `collecting` ends; outside of one it is written at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from boards.debts import owing
from boards.models import FlowRun, Visit
from boards.states import RunStatus


@dataclass(frozen=True, slots=True)
class _Owed:
    kind: str
    unique_key: str
    run_id: int
    data: dict[str, Any]


_collected: ContextVar[list[_Owed] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting() -> Iterator[None]:
    """Write what is owed at the end of this block; within another one, at the end of that."""
    if _collected.get() is not None:
        yield
        return
    owed: list[_Owed] = []
    token = _collected.set(owed)
    try:
        yield
    finally:
        _collected.reset(token)
    for each in owed:
        _write(each)


def mark() -> int:
    """How much is owed so far, for `back_to`."""
    return len(_collected.get() or ())


def back_to(place: int) -> None:
    """Forget what was owed since `mark`: a savepoint that it belonged to is rolled back."""
    owed = _collected.get()
    if owed is not None:
        del owed[place:]


def later(kind: str, unique_key: str, run: FlowRun, **data: Any) -> None:
    owed = _Owed(kind, unique_key, run.pk, data)
    collected = _collected.get()
    if collected is None:
        _write(owed)
    else:
        collected.append(owed)


def advance_later(run: FlowRun, visit: Visit, trigger: str, name: str, **facts: Any) -> None:
    """Owe an advance of the run, in a transaction of its own; `name` tells it from others of the same visit."""
    key = f"flow_advance:{name}:{visit.pk}"
    later("flow_advance", key, run, visit=visit.pk, trigger=trigger, **facts)


def clear_later(run: FlowRun, visit: Visit, cause: str, words: str) -> None:
    """Owe the end of what a visit still has at work: branches, their questions, runs that it called.

    In a transaction of its own: their tasks and runs are locked left of what the step after this one locks.
    """
    at_work = visit.branches.filter(outcome="").exists() or visit.child_runs.filter(status=RunStatus.ACTIVE).exists()
    if at_work:
        later("visit_clear", f"visit_clear:{visit.pk}:{run.revision}", run, visit=visit.pk, cause=cause, words=words)


def tell_parent(run: FlowRun) -> None:
    """A run that another one called has ended: the caller's advance is owed, since it locks another run."""
    if run.called_by_id is not None:
        told = {"visit": run.called_by_id, "child": run.pk, "status": str(run.status)}
        later("parent_advance", f"parent_advance:{run.pk}:{run.revision}", run, **told)


def _write(owed: _Owed) -> None:
    owing.owe(owed.kind, owed.unique_key, run=owed.run_id, data=owed.data)

"""Who is told how a task ended, and what that leaves in the ending's own transaction (spec: 07 section 3).

A notice is a debt of the ending, due when its cascade is paid. Where no handler is registered for the session that
filed, nothing is written and nothing is read: an ending with nobody to tell costs nothing. `telling` delivers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from django.db import connection, transaction

from boards.debts import owing, paying
from boards.locks import Rank, taking
from boards.models import Debt, Session, Task
from boards.states import TERMINAL, Verb

if TYPE_CHECKING:
    from boards.tasks.endings import Ended

KIND: Final = "notice"
Concurrency = Literal["one", "allow"]


@dataclass(frozen=True, slots=True)
class Notice:
    """How a task ended, for the session that filed it. `cancelled`: ids of dependents of the same filer that this
    ending cancelled; they send no notice of their own. `key` is the same whenever this notice is sent again.
    """

    key: str
    board: str
    task_id: str
    title: str
    attempt: int
    ending: str  # completed, errored or cancelled
    session_id: str
    output: Any = None
    error: str = ""
    cancelled: tuple[str, ...] = ()

    def wire(self) -> dict[str, Any]:
        """The payload: `output`, `error` and `cancelled` only where there is something in them."""
        told: dict[str, Any] = {name: getattr(self, name) for name in ("board", "task_id", "attempt", "ending")}
        more = {"output": self.output, "error": self.error, "cancelled": list(self.cancelled)}
        return told | {name: value for name, value in more.items() if value not in (None, "", [])}


@dataclass(frozen=True, slots=True)
class Deferred:
    """A handler's answer: not now, send it again later. Being held back is no failure."""

    reason: str = ""


def defer(reason: str = "") -> Deferred:
    """What a handler returns to hold a notice back; it is sent again with the back-off."""
    return Deferred(reason)


Told = Callable[[Notice], Deferred | None]


@dataclass(frozen=True, slots=True)
class Handler:
    """One registered function. `board`: a slug, or "" for all; `filer`: a kind of session, or "" for all."""

    told: Told
    board: str = ""
    filer: str = ""
    concurrency: Concurrency = "one"

    def hears(self, board: str, filer: str) -> bool:
        return self.board in {"", board} and self.filer in {"", filer}


HANDLERS: Final[dict[tuple[str, str], Handler]] = {}


def on_task_settled(*, board: str = "", filer: str = "", concurrency: Concurrency = "one") -> Callable[[Told], Told]:
    """Register who hears how tasks of a board end (a slug; "" all), filed by sessions of a kind ("" all).

    The function gets a `Notice`, once for each ending; of several the most particular one hears it, the board before
    the kind. It returns None, or `defer()`; where it raises, the notice stays owed and is sent again, so a process that
    dies in it sends it again too: `Notice.key` tells. Notices of one session come one at a time, unless `concurrency`
    is "allow". It is called in whatever process ends the task or sweeps, outside of any transaction.
    """

    def register(told: Told) -> Told:
        if (board, filer) in HANDLERS:
            raise AssertionError(f"Two functions hear the endings of board {board!r} and filer {filer!r}.")
        if filer and filer not in Session.Kind.values:
            raise AssertionError(f"filer must be one of {', '.join(Session.Kind.values)}, not {filer!r}.")
        HANDLERS[(board, filer)] = Handler(told, board, filer, concurrency)
        return told

    return register


def handler_for(board: str, filer: str) -> Handler | None:
    """The function that hears an ending; None where nobody does."""
    for place in ((board, filer), (board, ""), ("", filer), ("", "")):
        if place in HANDLERS:
            return HANDLERS[place]
    return None


def is_owed_by(one: Ended) -> bool:
    """Whether this ending is told to the session that filed the task.

    Not where the ending that cascaded here lists it, nor where the filer itself cancelled it.
    """
    if not HANDLERS or one.task.status not in TERMINAL or str(one.task.filer_id) in one.settlement.told:
        return False
    own = one.settlement.verb in {Verb.CANCEL, Verb.SKIP} and one.settlement.chain.session_id == one.task.filer_id
    return not own and handler_for(one.task.board.slug, _filer_kind(one.task)) is not None


def _filer_kind(task: Task) -> str:
    """Read only where some function asks for it."""
    return task.filer.kind if any(filer for _, filer in HANDLERS) else ""


def owe(one: Ended, cascade: Debt | None) -> Debt:
    task = one.task
    return owing.owe(
        KIND,
        f"notice:{task.pk}:{task.attempts}:{task.revision}",
        task=task,
        after=cascade,
        data={
            "attempt": task.attempts,
            "ending": str(task.status),
            "error": task.error[:10_000],
            "session": str(task.filer_id),
            "parent": task.filed_by_task_id,
        },
    )


def release(turns: Iterable[int], *, after_s: float = 0) -> None:
    """The turns of these tasks are over in this transaction: what was held back for them, or taken by them and not
    cleared, falls due as it commits. `after_s`: they are parked, so it falls due that much later.
    """
    keys = list(turns)
    if not keys or not HANDLERS:
        return
    taking(Rank.DEBT)
    with connection.cursor() as cursor:
        cursor.execute(
            """update boards_debt set due_at = statement_timestamp() + make_interval(secs => %s)
                where kind = 'notice' and state = 'owed'
                  and ((data->>'parent')::bigint = any(%s) or (data->'taken'->>'turn')::bigint = any(%s))
            returning id""",
            [after_s, keys, keys],
        )
        freed = [row[0] for row in cursor.fetchall()]
    for debt_id in freed if not after_s else []:
        transaction.on_commit(partial(paying.pay, debt_id), robust=True)


@dataclass(frozen=True, slots=True)
class Taken:
    """A notice that a turn, or a wait, has taken: nobody else delivers it until it is cleared or the turn is over."""

    notice: Notice
    debt_id: int
    token: str = field(repr=False)

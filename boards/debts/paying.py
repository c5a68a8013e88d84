"""Pays debts: at once after the commit, by the sweeper, or by a drain (spec: 07 section 2). Safe to repeat.

A payer takes its own locks first and the debt's row goes last, so two payers at once pay once: the second finds the
row gone and its work is rolled back.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from django.db import connection

from boards.debts.kinds import PAYERS
from boards.locks import Rank, engine_transaction, taking
from boards.models import Debt
from boards.stored_text import clean_text

log = logging.getLogger(__name__)

MAX_DEBT_AGE_S = 24 * 3600
_BACKOFF_SQL = "least(300, 2 * power(2, least(tries, 10)) * (0.75 + random() / 2))"


class Paid(StrEnum):
    PAID = "paid"
    GONE = "gone"
    FAILED = "failed"
    NOT_DUE = "not_due"


class _AlreadyPaid(Exception):
    """Another payer was first; what this one did is rolled back."""


@dataclass(frozen=True)
class _Settled:
    done: bool
    freed: tuple[int, ...] = ()


class _Line(threading.local):
    """The debts that stand in line while this thread pays one; None while it pays none."""

    ids: deque[int] | None = None


_line = _Line()


def pay_in_line(debt_id: int) -> None:
    """Pay a debt right after the commit that left it; what a payment leaves is paid after it and not inside it.

    Else a cascade down a chain of tasks would nest a payment for each of them, deeper than Python goes.
    """
    if _line.ids is not None:
        _line.ids.append(debt_id)
        return
    _line.ids = deque([debt_id])
    try:
        while _line.ids:
            pay(_line.ids.popleft())
    finally:
        _line.ids = None  # what is left after a failure of the database is found by the sweeper


def pay(debt_id: int) -> Paid:
    """Pay one debt now. A failure is recorded on it with a back-off and never raised: the others must not suffer."""
    while True:
        try:
            settled = _pay_once(debt_id)
        except _AlreadyPaid:
            return Paid.GONE
        except Exception as error:
            log.exception("Debt %s could not be paid", debt_id)
            _note_failure(debt_id, error)
            return Paid.FAILED
        if settled is None:
            return Paid.NOT_DUE
        if settled.done:
            for next_id in settled.freed:
                pay(next_id)
            return Paid.PAID


@engine_transaction
def _pay_once(debt_id: int) -> _Settled | None:
    debt = Debt.objects.filter(pk=debt_id, state=Debt.State.OWED).select_related("task", "run").first()
    if debt is None:
        raise _AlreadyPaid
    if debt.after_id is not None:
        return None
    if not PAYERS[debt.kind](debt):
        return _Settled(done=False)
    return settle(debt_id)


def settle(debt_id: int) -> _Settled:
    """Mark a debt as paid in the running engine transaction: what was chained to it falls due."""
    taking(Rank.DEBT)
    chained = Debt.objects.filter(after=debt_id)
    freed = tuple(chained.filter(payer="any").values_list("pk", flat=True))
    chained.update(after=None)
    deleted, _ = Debt.objects.filter(pk=debt_id, state=Debt.State.OWED).delete()
    if not deleted:
        raise _AlreadyPaid
    return _Settled(done=True, freed=freed)


def due_ids(payer: str = "any", limit: int = 200) -> list[int]:
    """Ids of debts of a class that are due by the database clock, oldest due first."""
    with connection.cursor() as cursor:
        cursor.execute(
            """select id from boards_debt
               where payer = %s and state = 'owed' and after_id is null and due_at <= statement_timestamp()
               order by due_at, id limit %s""",
            [payer, limit],
        )
        return [row[0] for row in cursor.fetchall()]


def pay_due(limit: int = 200) -> int:
    """Pay what anyone may pay and is due; answers how many were paid."""
    return sum(pay(debt_id) is Paid.PAID for debt_id in due_ids("any", limit))


def _note_failure(debt_id: int, error: Exception) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""update boards_debt set tries = tries + 1, last_error = %s,
                  due_at = statement_timestamp() + make_interval(secs => {_BACKOFF_SQL}),
                  state = case when created_at < statement_timestamp() - make_interval(secs => %s)
                               then 'undeliverable' else state end
                where id = %s and state = 'owed'""",
            [clean_text(f"{type(error).__name__}: {error}"[:2000]), MAX_DEBT_AGE_S, debt_id],
        )

"""Pays debts: at once after the commit, by the sweeper, or by a drain (spec: 07 section 2). Safe to repeat.

A payer takes its own locks first and the debt's row goes last, so two payers at once pay once: the second finds the
row gone and its work is rolled back.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from django.db import connection, transaction

from boards import live_notices, turns
from boards.debts.kinds import GIVEN_UP, LET_GO, MANY, OUTSIDE, PAYERS, Paid, Undeliverable
from boards.each import many_at_once
from boards.locks import Rank, engine_transaction, taking
from boards.models import Debt
from boards.stored_text import clean_text

__all__ = ["Paid", "due_ids", "free", "note_failure", "owed_by", "pay", "pay_after_commit", "pay_due", "settle"]

log = logging.getLogger(__name__)

MAX_DEBT_AGE_S = 24 * 3600
PAGE = 200
TOGETHER = 50  # debts of a kind that are paid in one transaction, where its payer can
_PAYS = 0x0B0E  # the first number of the advisory locks by which sweepers keep out of each other's way
MAX_PAGES = 20  # of one `pay_due`: what fails is pushed back, so the next page is of others
_BACKOFF_SQL = "least(300, 2 * power(2, least(tries, 10)) * (0.75 + random() / 2))"


class _AlreadyPaid(Exception):
    """Another payer was first; what this one did is rolled back."""


class _NotTogether(Exception):
    """These are too much for one transaction; each is paid by itself."""


@dataclass(frozen=True)
class _Settled:
    done: bool
    outside: str = ""  # the kind, where its payer wants no transaction
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
            note_failure(debt_id, error)
            return Paid.FAILED
        if settled is None:
            return Paid.NOT_DUE
        if settled.outside:
            with turns.of(None):
                return OUTSIDE[settled.outside](debt_id)
        if settled.done:
            for next_id in settled.freed:
                pay(next_id)
            return Paid.PAID


@engine_transaction
def _pay_once(debt_id: int) -> _Settled | None:
    debt = Debt.objects.filter(pk=debt_id, state=Debt.State.OWED).first()  # many payers never look at its task
    if debt is None:
        raise _AlreadyPaid
    if debt.after_id is not None:
        return None
    if debt.kind in OUTSIDE:
        return _Settled(done=False, outside=debt.kind)
    with turns.of(None):  # in a worker's thread too: what a payer files or takes is not the worker's
        paid = PAYERS[debt.kind](debt)
    if not paid:
        return _Settled(done=False)
    return settle(debt_id)


def settle(debt_id: int) -> _Settled:
    """Mark a debt as paid in the running engine transaction: what was chained to it falls due."""
    taking(Rank.DEBT)
    freed = free(debt_id)
    with connection.cursor() as cursor:
        # Nothing points to a debt but what is chained to it, and that is free by now.
        cursor.execute("delete from boards_debt where id = %s and state = 'owed'", [debt_id])
        if not cursor.rowcount:
            raise _AlreadyPaid
    return _Settled(done=True, freed=freed)


def pay_after_commit(debt_ids: Iterable[int]) -> None:
    """Have these paid once the running transaction has committed."""
    for debt_id in debt_ids:
        transaction.on_commit(partial(pay_in_line, debt_id), robust=True)


def free(debt_id: int) -> tuple[int, ...]:
    """Make what is chained to a debt due; answers the ids of those that anyone may pay, the drains are woken."""
    return _free([debt_id])


def _free(debt_ids: Sequence[int]) -> tuple[int, ...]:
    with connection.cursor() as cursor:
        cursor.execute(
            """update boards_debt d set after_id = null, due_at = statement_timestamp() where d.after_id = any(%s)
               returning d.id, d.payer, d.task_id, (select t.board_id from boards_task t where t.pk = d.task_id)""",
            [list(debt_ids)],
        )
        chained = sorted(cursor.fetchall())
    for _, payer, task_key, board_id in chained:
        if payer != "any":
            live_notices.changed(board_id, task_key=task_key)
    return tuple(freed for freed, payer, _, _ in chained if payer == "any")


def due_ids(payer: str = "any", limit: int = PAGE) -> list[int]:
    """Ids of debts of a class that are due by the database clock, oldest due first."""
    with connection.cursor() as cursor:
        cursor.execute(
            """select id from boards_debt
               where payer = %s and state = 'owed' and after_id is null and due_at <= statement_timestamp()
               order by due_at, id limit %s""",
            [payer, limit],
        )
        return [row[0] for row in cursor.fetchall()]


def owed_by(payers: Sequence[str]) -> set[str]:
    """Which of these owe anything, due or not: one cheap look for those who mostly owe nothing."""
    with connection.cursor() as cursor:
        cursor.execute(
            """select p from unnest(%s::text[]) as p
                where exists (select from boards_debt where payer = p and state = 'owed')""",
            [list(payers)],
        )
        return {row[0] for row in cursor.fetchall()}


def pay_due(limit: int = PAGE) -> int:
    """Pay what anyone may pay and is due, page by page; answers how many were paid.

    A page full of debts that fail is followed by the next one in the same call, each debt tried once.
    """
    paid, tried = 0, set[int]()
    for _ in range(MAX_PAGES):
        page = [debt_id for debt_id in due_ids("any", limit) if debt_id not in tried]
        alone, together = _by_kind(page)
        paid += sum(_pay_together(kind, ids) for kind, ids in together.items())
        paid += sum(pay(debt_id) is Paid.PAID for debt_id in alone)
        tried.update(page)
        if len(page) < limit:
            break
    return paid


def _by_kind(page: Sequence[int]) -> tuple[list[int], dict[str, list[int]]]:
    """Those of a page that are paid by themselves, and by kind those of which many can be paid at once."""
    of_kinds = (
        Debt.objects.filter(pk__in=page, kind__in=list(MANY)).order_by("due_at", "pk") if page else Debt.objects.none()
    )
    together: dict[str, list[int]] = {}
    for debt_id, kind in of_kinds.values_list("pk", "kind"):
        together.setdefault(kind, []).append(debt_id)
    known = {debt_id for ids in together.values() for debt_id in ids}
    return [debt_id for debt_id in page if debt_id not in known], together


def _pay_together(kind: str, debt_ids: Sequence[int]) -> int:
    return many_at_once(
        debt_ids, TOGETHER, lambda ids: _pay_batch(kind, ids), lambda debt_id: pay(debt_id) is Paid.PAID
    )


def _pay_batch(kind: str, debt_ids: Sequence[int]) -> int:
    settled, freed = _pay_many(kind, debt_ids)
    for next_id in freed:
        pay(next_id)
    return settled


@engine_transaction
def _pay_many(kind: str, debt_ids: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Pay debts of one kind in one transaction; answers how many, and what fell due by it. Those that another sweeper
    is paying just now are left to it.
    """
    free_ones = Debt.objects.raw(
        """select * from boards_debt where id = any(%s) and state = 'owed' and after_id is null
              and pg_try_advisory_xact_lock(%s, (id %% 2147483647)::int) order by id""",
        [list(debt_ids), _PAYS],
    )
    debts = list(free_ones)
    with turns.of(None):
        settled = sorted(MANY[kind](debts)) if debts else []
    if len(settled) < len(debts):
        raise _NotTogether
    taking(Rank.DEBT)
    freed = _free(settled)
    with connection.cursor() as cursor:
        cursor.execute("delete from boards_debt where id = any(%s) and state = 'owed'", [settled])
        if cursor.rowcount != len(settled):
            raise _AlreadyPaid
    return len(settled), freed


@engine_transaction
def note_failure(debt_id: int, error: Exception) -> None:
    """Push a debt back, or give it up where it is too old or no later try can succeed."""
    age = 0 if isinstance(error, Undeliverable) else MAX_DEBT_AGE_S
    taking(Rank.DEBT)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""update boards_debt set tries = tries + 1, last_error = %s,
                  due_at = statement_timestamp() + make_interval(secs => {_BACKOFF_SQL}),
                  state = case when created_at <= statement_timestamp() - make_interval(secs => %s)
                               then 'undeliverable' else state end
                where id = %s and state = 'owed' returning state""",
            [clean_text(f"{type(error).__name__}: {error}"[:2000]), age, debt_id],
        )
        row = cursor.fetchone()
    if row == (Debt.State.UNDELIVERABLE,):
        debt = Debt.objects.select_related("task__board", "run__flow").get(pk=debt_id)
        board_id = debt.task.board_id if debt.task else debt.run.flow.board_id if debt.run else None
        live_notices.changed(board_id, task_key=debt.task_id, run_id=debt.run_id)
        if debt.kind in LET_GO:
            pay_after_commit(free(debt_id))
        if debt.kind in GIVEN_UP:
            transaction.on_commit(lambda: _tell_given_up(debt), robust=True)


def _tell_given_up(debt: Debt) -> None:
    with turns.of(None):
        GIVEN_UP[debt.kind](debt)

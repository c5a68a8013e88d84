"""Writes what a transaction owes, in that transaction (spec: 07 section 2)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection, transaction

from boards import live_notices
from boards.debts import paying
from boards.locks import Rank, taking
from boards.models import Debt, FlowRun, Task
from boards.stored_text import clean_json_text


def owe(
    kind: str,
    unique_key: str,
    *,
    task: Task | int | None = None,
    run: FlowRun | int | None = None,
    payer: str = "any",
    after: Debt | None = None,
    due_at: datetime | None = None,
    data: dict[str, Any] | None = None,
) -> Debt:
    """Write a debt, or find the one that is owed already; one of class `any` is paid right after the commit.

    With `due_at`, a moment by the database's clock, it is left until then, for the sweeper or a drain.
    """
    taking(Rank.DEBT)
    debt = Debt(
        kind=kind,
        unique_key=unique_key,
        task_id=task.pk if isinstance(task, Task) else task,
        run_id=run.pk if isinstance(run, FlowRun) else run,
        payer=payer,
        after=after,
        data=data or {},
    )
    made = _insert(debt, due_at)
    while not made:
        found = Debt.objects.filter(unique_key=unique_key).first()
        if found is not None:
            return found
        made = _insert(debt, due_at)  # it was paid a moment ago
    if payer == "any" and after is None and due_at is None:
        transaction.on_commit(lambda: paying.pay_in_line(debt.pk), robust=True)
    else:
        live_notices.changed(debt.task.board_id if debt.task else None, task_key=debt.task_id)
    return debt


def _insert(debt: Debt, due_at: datetime | None) -> bool:
    """Store the debt unless its key is owed already; one statement, where get_or_create takes four."""
    with connection.cursor() as cursor:
        cursor.execute(
            """insert into boards_debt
                      (kind, unique_key, task_id, run_id, payer, data, due_at, after_id, tries, last_error, state)
               values (%s, %s, %s, %s, %s, %s::jsonb, coalesce(%s::timestamptz, statement_timestamp()), %s,
                       0, '', 'owed')
               on conflict (unique_key) do nothing returning id, due_at, created_at""",
            [
                debt.kind,
                debt.unique_key,
                debt.task_id,
                debt.run_id,
                debt.payer,
                clean_json_text(debt.data),
                due_at,
                debt.after_id,
            ],
        )
        row = cursor.fetchone()
    if row is None:
        return False
    debt.pk, debt.due_at, debt.created_at = row
    debt._state.adding, debt._state.db = False, connection.alias
    return True


def note_undeliverable(kind: str, unique_key: str, task: Task, words: str, data: dict[str, Any]) -> None:
    """Leave what nobody can pay for operators to see: it has failed for good from the start."""
    taking(Rank.DEBT)
    state = Debt.State.UNDELIVERABLE
    Debt.objects.get_or_create(
        unique_key=unique_key,
        defaults={"kind": kind, "task": task, "state": state, "tries": 1, "last_error": words, "data": data},
    )


def is_settling(task_key: int) -> bool:
    """Whether the last ending of a task still owes its cascade, notice or stop."""
    kinds = ["cascade", "notice", "session_stop"]
    return Debt.objects.filter(task_id=task_key, kind__in=kinds, state=Debt.State.OWED).exists()


def is_owed(kind: str, task_key: int) -> bool:
    """Whether a task still owes a debt of this kind."""
    return Debt.objects.filter(task_id=task_key, kind=kind, state=Debt.State.OWED).exists()

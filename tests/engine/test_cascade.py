"""What an ending does to other tasks, as debts that are paid late, twice or against each other (spec: 01 "Cascade")."""

from __future__ import annotations

import inspect
import threading

import pytest
from django.db import connection
from django.db.models.functions import Now

from boards import tasks
from boards.debts import paying
from boards.models import Debt, Task, TaskDep
from boards.tasks import Filing, cascade, rows
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


def elsewhere(work):
    """Run on a connection of its own and wait for it."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def unpaid(monkeypatch, kind):
    """From now on debts of this kind fail; answers the payer that works."""
    works = paying.PAYERS[kind]

    def fails(debt):
        raise RuntimeError("not now")

    monkeypatch.setitem(paying.PAYERS, kind, fails)
    return works


def pay(monkeypatch, kind, works):
    monkeypatch.setitem(paying.PAYERS, kind, works)
    Debt.objects.filter(kind=kind).update(due_at=Now())
    while paying.pay_due():
        pass


def test_a_cascade_down_a_chain_goes_no_deeper_into_the_stack(board, anna, monkeypatch):
    works, depths = paying.PAYERS["cascade"], []

    def noted(debt):
        depths.append(len(inspect.stack(0)))
        return works(debt)

    monkeypatch.setitem(paying.PAYERS, "cascade", noted)
    chain = tasks.file_tasks(
        anna,
        board,
        [Filing(goal=f"Step {n}", id=f"s{n}", assignee="writer", deps=[f"s{n - 1}"] if n else []) for n in range(8)],
    )
    tasks.cancel(anna, chain[0], "not wanted")
    assert set(Task.objects.values_list("status", flat=True)) == {"cancelled"}
    assert not Debt.objects.exists()
    assert (len(depths), len(set(depths))) == (7, 1)


def test_a_cascade_locks_all_its_rows_in_one_ordered_statement(board, anna, monkeypatch):
    grandchild = cast.filed(board, anna, "Grandchild")  # an older row than those that it waits for
    root = cast.filed(board, anna, "Root")
    child = cast.filed(board, anna, "Child", deps=[root.public_id])
    tasks.update_task(anna, grandchild, deps=[child.public_id])
    works = unpaid(monkeypatch, "cascade")
    tasks.cancel(anna, root)
    locked, lock = [], rows.lock

    def noted(*args, **options):
        locked.append(lock(*args, **options))
        return locked[-1]

    monkeypatch.setattr(rows, "lock", noted)
    monkeypatch.setitem(paying.PAYERS, "cascade", works)
    paying.pay(Debt.objects.get(task=root).pk)
    assert cast.fresh(child).status == "cancelled"
    first, second = locked[:2]
    assert set(second) <= set(first)


def test_a_dependent_that_was_let_go_meanwhile_is_not_cancelled(board, anna, monkeypatch):
    root = cast.filed(board, anna, "Root")
    child = cast.filed(board, anna, "Child", deps=[root.public_id])
    works = unpaid(monkeypatch, "cascade")
    tasks.cancel(anna, root)
    lock = rows.lock

    def late(*args, **options):
        monkeypatch.setattr(cascade.rows, "lock", lock)
        elsewhere(lambda: tasks.start_anyway(anna, child))
        return lock(*args, **options)

    monkeypatch.setattr(cascade.rows, "lock", late)
    pay(monkeypatch, "cascade", works)
    assert not TaskDep.objects.exists()
    assert cast.fresh(child).status == "pending"


def test_what_a_retried_parent_files_anew_is_no_part_of_its_cancel(board, anna, worker, monkeypatch):
    parent = cast.filed(board, anna, "Parent")
    cast.claimed(board)
    before = tasks.file_task(worker, board, goal="Before", filed_by_task=parent)
    works = unpaid(monkeypatch, "children_cancel")
    tasks.cancel(anna, parent, cancel_filed=True)
    for debt in Debt.objects.filter(kind="session_stop"):
        paying.pay(debt.pk)
    assert tasks.retry(anna, parent).landed
    cast.claimed(board)
    after = tasks.file_task(worker, board, goal="After", filed_by_task=parent)
    pay(monkeypatch, "children_cancel", works)
    assert cast.fresh(before).status == "cancelled"
    assert cast.fresh(after).status == "pending"

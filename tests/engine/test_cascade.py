"""What an ending does to other tasks, as debts that are paid late, twice or against each other (spec: 01 "Cascade")."""

from __future__ import annotations

import inspect
import threading

import pytest
from django.db import connection
from django.db.models import Count
from django.db.models.functions import Now

from boards import tasks
from boards.debts import paying
from boards.models import Debt, Event, Task, TaskDep
from boards.tasks import Filing, cascade, endings, rows
from tests import cast
from tests.racing import at_once

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
    thread.join(60)
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


def _owed(board, anna, monkeypatch, count):
    """So many failed tasks whose cascades nobody has paid yet, each with two dependents, one of them shared by all."""
    works = unpaid(monkeypatch, "cascade")
    failed = [cast.filed(board, anna, f"part {n}", id=f"a{n}") for n in range(count)]
    for n in range(count):
        cast.filed(board, anna, f"after {n}", deps=[f"a{n}"])
    cast.filed(board, anna, "all of it", deps=[f"a{n}" for n in range(count)], id="all")
    for task in failed:
        tasks.cancel(anna, task.pk, "Not wanted")
    assert Debt.objects.filter(kind="cascade", tries=1).count() == count
    Debt.objects.update(due_at=Now())
    monkeypatch.setitem(paying.PAYERS, "cascade", works)


def _ended_once(count):
    assert not Debt.objects.exists()
    assert set(Task.objects.values_list("status", flat=True)) == {"cancelled"}
    once = Event.objects.filter(kind="task.cancelled").values("task").annotate(times=Count("pk"))
    assert [row["times"] for row in once] == [1] * (2 * count + 1)


def test_many_cascades_are_paid_in_one_transaction(board, anna, monkeypatch):
    _owed(board, anna, monkeypatch, 7)
    settled = []
    monkeypatch.setattr(cascade, "settle_many", lambda some: settled.append(len(some)) or endings.settle_many(some))
    assert paying.pay_due() == 7
    assert settled == [14]  # the shared one by each of its causes, of which the first counts
    _ended_once(7)


def test_of_many_cascades_one_that_cannot_be_paid_fails_alone(board, anna, monkeypatch):
    _owed(board, anna, monkeypatch, 5)
    poison = Debt.objects.get(kind="cascade", task__public_id="a2")
    Debt.objects.filter(pk=poison.pk).update(data={})
    assert paying.pay_due() == 4
    assert Debt.objects.get().pk == poison.pk
    assert "KeyError" in Debt.objects.get().last_error
    assert cast.fresh(Task.objects.get(goal="after 2")).status == "pending"
    Debt.objects.filter(pk=poison.pk).update(data=poison.data, due_at=Now())
    assert paying.pay_due() == 1
    _ended_once(5)


def test_two_sweepers_pay_many_cascades_once_each(board, anna, monkeypatch):
    for _ in range(5):
        _owed(board, anna, monkeypatch, 60)
        at_once(paying.pay_due, paying.pay_due)
        while paying.pay_due():
            pass
        _ended_once(60)
        Task.objects.all().delete()
        Event.objects.all().delete()

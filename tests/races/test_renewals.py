"""Renewals of many leases against endings that lock the same rows (spec: 02 sections 3 and 7)."""

from __future__ import annotations

import threading

import pytest
from django.db import transaction

from boards import tasks
from boards.locks import engine_transaction
from boards.models import Task
from boards.tasks import Wanted, rows
from tests import cast
from tests.racing import at_once, waiting
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def test_renewals_take_their_rows_in_the_order_of_all_others():
    board = cast.make_board(cast.make_space())
    anna = cast.chain_of(cast.make_member(board.space))
    for n in (1, 2):
        cast.filed(board, anna, f"Task {n}")
    first, second = tasks.claim([Wanted(board.pk, {"writer": 2})], limit=2, claimed_by=cast.HERE)
    keys = [first.task.pk, second.task.pk]
    Task.objects.filter(pk=keys[0]).update(priority=1)  # so that the table holds the second row before the first
    tries, locked, go = [], threading.Event(), threading.Event()

    def holds_the_first() -> None:
        with transaction.atomic():
            rows.lock([keys[0]])
            locked.set()
            assert go.wait(60)

    @engine_transaction
    def an_ending() -> None:
        tries.append(1)
        rows.lock(keys)

    def ends() -> None:
        assert locked.wait(60)
        an_ending()

    def renews() -> dict[int, object]:
        assert locked.wait(60)
        until(lambda: waiting() == 1, what="the ending waits for the first row")
        return tasks.renew_leases([second.ticket, first.ticket])

    def lets_go() -> None:
        assert locked.wait(60)
        until(lambda: waiting() == 2, what="the renewal waits for a row")
        go.set()

    *_, renewed, _ = at_once(holds_the_first, ends, renews, lets_go)
    assert all(renewed.values())
    assert len(tries) == 1, "a deadlock was broken by repeating"

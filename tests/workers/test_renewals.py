"""Leases of running work are kept, a lost claim is told once, and a database that is away is no loss."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.db import OperationalError

from boards import tasks
from boards.models import Process, Task
from boards.tasks import Claimed
from boards.workers import renewals
from boards.workers.processes import Presence
from boards.workers.renewals import Renewals
from tests import cast

SPAN_MS = 60_000  # long, since the database's own clock runs on


class Clock:
    """The steady clock of a test."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(renewals, "time", clock)
    return clock


@pytest.fixture
def claims(db: None) -> Callable[[int], list[Claimed]]:
    board = cast.make_board(cast.make_space())
    anna = cast.chain_of(cast.make_member(board.space))

    def make(number: int) -> list[Claimed]:
        for n in range(number):
            cast.filed(board, anna, f"task {n}")
        return [cast.claimed(board, lease_ms=SPAN_MS) for _ in range(number)]

    return make


def lease(claimed: Claimed) -> datetime | None:
    return Task.objects.get(pk=claimed.task.pk).lease_until


def test_each_third_of_the_span_all_due_leases_move_in_one_statement(
    clock: Clock, claims: Callable[[int], list[Claimed]], django_assert_num_queries: Any
) -> None:
    kept, lost = Renewals(), []
    both = claims(2)
    for claimed in both:
        kept.keep(claimed.ticket.task_key, claimed.ticket, SPAN_MS, lambda: lost.append(1))
    before = [lease(claimed) for claimed in both]
    kept.tick()
    clock.now += 16
    with django_assert_num_queries(0):
        kept.tick()
    clock.now += 4
    with django_assert_num_queries(1):
        kept.tick()
    assert all(lease(claimed) > was for claimed, was in zip(both, before, strict=True))
    assert lost == []


def test_a_decline_is_told_once_and_no_other_lease_suffers(
    clock: Clock, claims: Callable[[int], list[Claimed]]
) -> None:
    kept, lost = Renewals(), []
    gone, stays = claims(2)
    kept.keep("gone", gone.ticket, SPAN_MS, lambda: lost.append("gone"))
    kept.keep("stays", stays.ticket, SPAN_MS, lambda: lost.append("stays"))
    Task.objects.filter(pk=gone.task.pk).update(grant_no=99)
    for _ in range(3):
        clock.now += 20
        kept.tick()
    assert lost == ["gone"]


def test_settled_work_is_not_renewed_and_not_lost(clock: Clock, claims: Callable[[int], list[Claimed]]) -> None:
    kept, lost = Renewals(), []
    (claimed,) = claims(1)
    kept.keep("one", claimed.ticket, SPAN_MS, lambda: lost.append("one"))
    kept.drop("one")
    was = lease(claimed)
    clock.now += 40
    kept.tick()
    assert (lease(claimed), lost) == (was, [])


def test_a_database_that_is_away_loses_nothing_and_the_next_tick_tries_again(
    clock: Clock, claims: Callable[[int], list[Claimed]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, lost = Renewals(), []
    (claimed,) = claims(1)
    kept.keep("one", claimed.ticket, SPAN_MS, lambda: lost.append("one"))
    was = lease(claimed)

    def away(tickets: object) -> None:
        raise OperationalError("the connection is closed")

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "renew_leases", away)
        patch.setattr(renewals, "let_go", lambda: None)  # the test's own connection is inside a transaction
        clock.now += 20
        kept.tick()
    assert lost == []
    kept.tick()
    assert lease(claimed) > was


@pytest.mark.django_db
def test_the_process_row_is_written_again_where_it_is_gone() -> None:
    presence = Presence("drain", slots=4, assignees=["1:writer"])
    presence.register()
    Process.objects.all().delete()
    presence.busy = 2
    presence.beat()
    row = Process.objects.get()
    assert (row.pk, row.slots, row.busy, row.assignees) == (presence.id, 4, 2, ["1:writer"])
    presence.sign_off()
    assert Process.objects.get().stopped_at is not None


@pytest.mark.django_db
def test_pages_are_told_only_where_more_than_the_time_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr("boards.live_notices.changed", lambda *args, **more: told.append(more))
    presence = Presence("drain")
    presence.register()
    presence.beat()
    assert told == [{"process": True}]
    presence.busy = 1
    presence.beat()
    assert len(told) == 2

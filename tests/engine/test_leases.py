"""Leases of code that claims by hand: they move where their holder says, for nobody else (spec: 02, 3; fault 3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import errors, tasks
from boards.actors import Chain
from boards.models import Attempt, Board, Event, Task
from boards.tasks import Claimed, Reason, Recorded
from boards.tasks.claims import LARGEST_LEASE_MS
from tests import cast


@pytest.fixture
def working(board: Board, anna: Chain) -> Claimed:
    cast.filed(board, anna)
    return cast.claimed(board, lease_ms=60_000)


def row_of(got: Claimed) -> Any:
    """The row, and in `db_now` the time by the database's clock."""
    return Task.objects.annotate(db_now=Now()).get(pk=got.task.pk)


def test_it_writes_the_deadline_and_nothing_else(working: Claimed, anna: Chain) -> None:
    before, told = row_of(working), Event.objects.count()
    for minutes in (5, 1):  # also sooner
        deadline = before.db_now + timedelta(minutes=minutes)
        assert tasks.renew_lease(working.task, deadline, claim=working.ticket).result is Recorded.RECORDED
        assert row_of(working).lease_until == deadline
    after = row_of(working)
    assert (after.revision, after.updated_at, after.attempts) == (before.revision, before.updated_at, 1)
    assert Event.objects.count() == told
    tasks.set_priority(anna, working.task, 5)
    assert tasks.committed_lease_span(row_of(working)) == timedelta(minutes=1)  # as it was claimed


def test_a_worker_that_works_for_longer_than_its_lease_keeps_its_attempt_and_is_told_the_deadline(
    working: Claimed,
) -> None:
    for _ in range(3):  # each time most of the span is over
        Task.objects.filter(pk=working.task.pk).update(lease_until=Now() + timedelta(seconds=1))
        told = tasks.renew_leases([working.ticket])[working.task.pk]
        row = row_of(working)
        assert told == row.lease_until
        assert row.lease_until > row.db_now + timedelta(seconds=50)
    assert (row.attempts, row.abandonments, Attempt.objects.count()) == (1, 0, 1)


def test_it_declines_for_whoever_does_not_hold_the_claim(
    working: Claimed, board: Board, anna: Chain, worker: Chain
) -> None:
    later = row_of(working).db_now + timedelta(minutes=5)

    def reason(ticket: tasks.Ticket) -> Reason | None:
        before = row_of(working).lease_until
        outcome = tasks.renew_lease(working.task, later, claim=ticket)
        assert outcome.result is Recorded.DECLINED
        assert row_of(working).lease_until == before
        return outcome.reason

    other = cast.filed(board, anna, "Another")
    assert reason(cast.claimed(board).ticket) is Reason.NOT_MY_TASK
    assert reason(replace(working.ticket, grant_no=working.ticket.grant_no - 1)) is Reason.LOST_CLAIM
    Task.objects.filter(pk=working.task.pk).update(lease_until=Now())
    assert reason(working.ticket) is Reason.LOST_CLAIM
    tasks.cancel(anna, working.task)
    assert reason(working.ticket) is Reason.TERMINAL
    with pytest.raises(errors.TaskNotFound):
        tasks.renew_lease(other.pk + 1_000, later, claim=working.ticket)


@pytest.mark.parametrize("ms", [-1, 0, 900, LARGEST_LEASE_MS + 60_000])
def test_a_span_out_of_range_raises(working: Claimed, ms: int) -> None:
    before = row_of(working)
    with pytest.raises(ValueError, match="A lease lasts"):
        tasks.renew_lease(working.task, before.db_now + timedelta(milliseconds=ms), claim=working.ticket)
    assert row_of(working).lease_until == before.lease_until


def test_a_row_that_a_person_works_has_none_to_move(board: Board, anna: Chain) -> None:
    ben = cast.make_member(board.space, "ben")
    cast.put_on_roster(board, ben)
    task = cast.filed(board, anna, assignee="ben")
    got = tasks.claim_for_person(cast.chain_of(ben), task)
    later = row_of(got).db_now + timedelta(minutes=5)
    assert tasks.renew_lease(task, later, claim=got.ticket).result is Recorded.UNCHANGED
    assert (cast.fresh(task).lease_until, tasks.committed_lease_span(cast.fresh(task))) == (None, None)

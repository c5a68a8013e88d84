"""Who takes a place of an assignee's `max_running`, and when it is free again (spec: 02, 2.5 and 2.7; fault 5)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import actors, people, tasks
from boards.actors import Chain
from boards.models import Attempt, Board, Task
from boards.tasks import Claimed, Wanted
from tests import cast


@pytest.fixture
def working(board: Board, anna: Chain) -> Claimed:
    """The one task that the writer may work at a time, and others wait."""
    board.roster.filter(name=cast.WRITER).update(max_running=1)
    for n in range(3):
        cast.filed(board, anna, f"Task {n}")
    got = cast.claimed(board)
    assert next_of(board) is None
    return got


def next_of(board: Board) -> Claimed | None:
    """What the writer is handed where it would take as much as it gets."""
    got = tasks.claim([Wanted(board.pk, {cast.WRITER: 9})], limit=9, lease_ms=60_000, claimed_by=cast.HERE)
    assert len(got) <= 1
    return got[0] if got else None


def lapse(task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(lease_until=Now() - timedelta(seconds=1))


BY_HAND: dict[str, Callable[[Chain, Task], object]] = {
    "cancelled": lambda olga, task: tasks.cancel(olga, task, "The server was restarted"),
    "withdrawn": lambda olga, task: tasks.withdraw(actors.service("flows", olga.space_id), task),
    "reclaimed": lambda olga, task: (lapse(task), tasks.reclaim(olga, task)),
}


@pytest.mark.parametrize("ending", BY_HAND)
def test_what_is_ended_by_hand_leaves_no_open_attempt_and_no_place_taken(
    board: Board, olga: Chain, working: Claimed, ending: str
) -> None:
    BY_HAND[ending](olga, working.task)
    assert list(Attempt.objects.values_list("task", "ending")) == [(working.task.pk, ending)]
    assert Attempt.objects.get().ended_at is not None
    got = next_of(board)
    assert got is not None
    assert next_of(board) is None


def test_a_turn_that_waits_on_a_person_takes_none_and_its_going_on_takes_one(
    board: Board, anna: Chain, worker: Chain, working: Claimed
) -> None:
    hold = people.open_hold(worker, claim=working.ticket, kind="question", prompt="Which?")
    assert next_of(board) is None  # it still runs
    people.suspend(working.ticket)
    other = next_of(board)
    assert other is not None
    people.answer_hold(anna, hold.pk, text="This one")
    assert next_of(board) is None
    tasks.complete(worker, other.task, None, claim=other.ticket)
    resumed = next_of(board)
    assert resumed is not None
    assert (resumed.task.pk, resumed.resumed) == (working.task.pk, True)


def test_a_worker_that_was_lost_takes_none(board: Board, working: Claimed) -> None:
    lapse(working.task)
    again = next_of(board)
    assert again is not None
    assert (again.task.pk, again.ticket.attempt) == (working.task.pk, 2)
    assert next_of(board) is None

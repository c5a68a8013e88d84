"""Filing in one statement: the same row and event as the long way, or nothing at all (spec: 01 section 3, 10)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from boards import errors, tasks
from boards.actors import Chain
from boards.bench.plans import buffers, planned
from boards.models import Board, BoardCounter, Event, Task
from boards.tasks import Filing, cleaning, filed_rows, straight
from tests import cast
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)

FULL: dict[str, Any] = {
    "title": "A title; '); drop table boards_task --",
    "context": 'Braces {}, "quotes", \\ and %s.',
    "input": {"a": [1, "ü", None], "b": {"c": "\\u0000"}},
    "labels": ['with "quotes"', "with, comma", "{braces}", "back\\slash", "NULL"],
    "metadata": {"from": "the test"},
    "priority": -7,
    "due_at": datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC),
    "max_attempts": 4,
    "checker": cast.READER,
}
KINDS = [{}, FULL, {"held": True}, {"checker": "person"}, {"assignee": ""}]


def row_of(task: Task) -> dict[str, Any]:
    own = {"key", "public_id", "incarnation_id", "created_at", "updated_at"}
    return {field.attname: getattr(task, field.attname) for field in Task._meta.concrete_fields} | dict.fromkeys(own)


def event_of(task: Task) -> dict[str, Any]:
    event = Event.objects.get(task=task.pk)
    own = {"id", "task_id", "at", "xid"}
    return {field.attname: getattr(event, field.attname) for field in Event._meta.concrete_fields} | dict.fromkeys(own)


@pytest.mark.parametrize("given", KINDS)
def test_the_row_and_its_event_are_those_of_the_long_way(board: Board, anna: Chain, given: dict[str, Any]) -> None:
    cast.filed(board, anna, "The first one makes the counter row")
    filing = {"goal": "Count the boats.\nAll of them.", "assignee": cast.WRITER} | given
    with CaptureQueriesContext(
        connection,
    ) as asked:
        straight_on = tasks.file_task(anna, board, allow_same=True, **filing)
    assert len(asked) == 1
    long_way = tasks.file_task(anna, board, allow_same=True, idempotency_key="k", **filing)
    stored = cast.fresh(straight_on)
    assert row_of(stored) == row_of(cast.fresh(long_way))
    assert event_of(straight_on) == event_of(long_way)
    assert row_of(straight_on) == row_of(stored)
    assert (straight_on.created_at, straight_on.incarnation_id) == (stored.created_at, stored.incarnation_id)
    assert (straight_on.public_id, long_way.public_id) == ("t2", "t3")


def spoil_roster(board: Board) -> None:
    board.roster.filter(name=cast.WRITER).delete()


def spoil_checker(board: Board) -> None:
    board.roster.filter(name=cast.READER).delete()


def spoil_total(board: Board) -> None:
    board.max_total_tasks = 1


def spoil_pending(board: Board) -> None:
    board.max_enqueued_tasks = 1


def spoil_all_pending(board: Board) -> None:
    board.max_enqueued_tasks = 0


def spoil_partition(board: Board) -> None:
    Board.objects.filter(pk=board.pk).update(partition_by="user")


def spoil_id(board: Board) -> None:
    Task.objects.filter(board=board).update(public_id="t2")


def spoil_goal(board: Board) -> None:
    Task.objects.filter(board=board).update(goal_hash=cleaning.goal_hash("Count the BOATS"))


@pytest.mark.parametrize(
    ("spoil", "refusal"),
    [
        (spoil_roster, errors.UnknownAssignee),
        (spoil_checker, errors.UnknownAssignee),
        (spoil_total, errors.TotalTaskCapExceeded),
        (spoil_pending, errors.EnqueuedTaskCapExceeded),
        (spoil_all_pending, errors.EnqueuedTaskCapExceeded),
        (spoil_partition, errors.TaskWriteDeclined),
        (spoil_goal, errors.AlreadyOpen),
        (spoil_id, None),
    ],
)
def test_where_anything_is_the_matter_nothing_is_written_and_the_long_way_says_why(
    board: Board, anna: Chain, spoil: Callable[[Board], None], refusal: type[errors.Refusal] | None
) -> None:
    cast.filed(board, anna, "The first one")
    spoil(board)
    filing = Filing(goal="Count the boats", assignee=cast.WRITER, checker=cast.READER)
    digest = cleaning.goal_hash(filing.goal)
    (task,) = filed_rows.fresh(anna, board, [filing], filed_rows.Plan([""], [digest], {}, {}, "", None, None), None)
    assert not straight.file(anna, board, task, f"{board.pk}::{digest}")
    assert (Task.objects.count(), Event.objects.count()) == (1, 1)
    assert BoardCounter.objects.get(board=board).filed_total == 1
    if refusal is None:
        assert tasks.file_task(anna, board, filing).public_id.startswith("t2-")
        return
    with pytest.raises(refusal):
        tasks.file_task(anna, board, filing)
    assert (Task.objects.count(), Event.objects.count()) == (1, 1)
    assert BoardCounter.objects.get(board=board).filed_total == 1


def test_a_held_task_needs_no_room_among_the_pending(board: Board, anna: Chain) -> None:
    cast.filed(board, anna)
    board.max_enqueued_tasks = 1
    assert cast.filed(board, anna, held=True).status == "held"


def test_room_comes_back_when_pending_tasks_start(board: Board, anna: Chain) -> None:
    board.max_enqueued_tasks = 2
    cast.filed(board, anna)
    cast.filed(board, anna)
    cast.claimed(board)
    with CaptureQueriesContext(connection) as asked:
        cast.filed(board, anna)
    assert len(asked) == 1
    with pytest.raises(errors.EnqueuedTaskCapExceeded):
        cast.filed(board, anna)


def test_it_joins_a_transaction_of_the_caller_and_goes_with_it(board: Board, anna: Chain) -> None:
    cast.filed(board, anna)
    with transaction.atomic():
        cast.filed(board, anna, "Taken back")
        transaction.set_rollback(True)
    assert (Task.objects.count(), Event.objects.count()) == (1, 1)
    assert cast.filed(board, anna, "The next").public_id == "t2"


def test_of_the_same_goal_filed_at_once_one_is_open(board: Board, anna: Chain) -> None:
    cast.filed(board, anna, "The first one makes the counter row")

    def file() -> str:
        try:
            return tasks.file_task(anna, board, goal="Count the boats", assignee=cast.WRITER).public_id
        except errors.AlreadyOpen:
            return "open already"

    for n in range(10):
        Task.objects.filter(goal="Count the boats").update(goal_hash=f"done {n}")
        assert sorted(at_once(*[file] * 6))[:5] == ["open already"] * 5
    assert Task.objects.filter(goal="Count the boats").count() == 10


def test_a_limit_that_is_reached_at_once_is_kept(board: Board, anna: Chain) -> None:
    cast.filed(board, anna)
    board.max_total_tasks = 4

    def file() -> bool:
        try:
            return bool(cast.filed(board, anna))
        except errors.TotalTaskCapExceeded:
            return False

    assert sum(at_once(*[file] * 8)) == 3
    assert Task.objects.count() == 4


@pytest.mark.usefixtures("known_to_be_empty")
def test_a_plan_kept_from_an_empty_board_finds_the_open_goal_by_its_index(board: Board, anna: Chain) -> None:
    tasks.file_task(anna, board, goal="The first")  # the connection keeps its plans now
    for start in range(0, 3_000, 1_000):
        tasks.file_tasks(anna, board, [Filing(goal=f"Task {start + n}") for n in range(1_000)])
    with CaptureQueriesContext(connection) as asked:
        tasks.file_task(anna, board, goal="The last")
    again = planned((asked[0]["sql"].replace("%", "%%"), []))  # which finds that one open
    assert again["Actual Rows"] == 1
    assert buffers(again) <= 60

"""The claim in one statement: the same as the long way, or nothing where anything rarer is there (spec: 02, 10)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from boards import tasks
from boards.actors import Chain
from boards.bench import history
from boards.bench.plans import buffers, planned
from boards.models import Attempt, Board, Event, Session, Task, TaskDep, TranscriptItem
from boards.stored_text import clean_text
from boards.tasks import Claimed, Filing, Start, Wanted, claims, cleaning, straight_claims
from tests import cast
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)
WORDS = "Attempt 1 started on here."


def begin(claimed: Sequence[Claimed]) -> list[Start]:
    return [Start(one.task.assignee or one.task.board.default_worker, WORDS) for one in claimed]


def wanted(board: Board, most: int = 5, **slots: int) -> Wanted:
    return Wanted(board.pk, slots or {cast.WRITER: most}, most, Board.objects.with_version().get(pk=board.pk))


def straight_on(*wanted: Wanted, limit: int = 50) -> list[Claimed]:
    return tasks.claim(wanted, limit=limit, claimed_by=cast.HERE, begin=begin, first_words=WORDS)


def long_way(*wanted: Wanted, limit: int = 50) -> list[Claimed]:
    return tasks.claim(wanted, limit=limit, claimed_by=cast.HERE, begin=begin)


def taken(*wanted: Wanted, limit: int = 50) -> list[straight_claims.Taken] | None:
    return straight_claims.claim(wanted, limit, None, cast.HERE, WORDS, claims._NOT_TOLD)


def fields(row: Any, *own: str) -> dict[str, Any]:
    return {
        field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields if field.attname not in own
    }


def left_by(one: Claimed) -> list[dict[str, Any]]:
    """All that a claim stored, but for keys, times and what is random."""
    task = cast.fresh(one.task)
    assert task.run
    own = ("key", "public_id", "incarnation_id", "created_at", "updated_at", "started_at", "lease_until", "run")
    session = Session.objects.get(pk=task.run["session_id"])
    attempt = Attempt.objects.get(pk=one.ticket.attempt_key)
    assert attempt.session_id == session.pk
    line = TranscriptItem.objects.get(task=task.pk)
    event = Event.objects.get(task=task.pk, kind="task.claimed")
    assert line.session_id == session.pk
    return [
        fields(task, *own) | {"run": sorted(task.run), "attempt": task.run["attempt"]},
        fields(session, "id", "created_at"),
        fields(attempt, "id", "task_id", "session_id", "started_at"),
        fields(line, "id", "task_id", "session_id", "at"),
        fields(event, "id", "task_id", "at", "xid"),
    ]


def test_what_it_leaves_is_what_the_long_way_leaves(board: Board, anna: Chain) -> None:
    filing = {"title": "A 'title'", "input": {"a": "{}"}, "labels": ["x, y"], "priority": 3}
    first, second = (cast.filed(board, anna, **filing) for _ in range(2))
    with CaptureQueriesContext(connection) as asked:
        (one,) = straight_on(wanted(board, 1))
    assert len(asked) == 2  # the board, for this test's own `wanted`, and the claim
    (other,) = long_way(wanted(board, 1))
    assert (one.task.pk, other.task.pk) == (first.pk, second.pk)
    assert left_by(one) == left_by(other)
    assert one.ticket == tasks.claims.mint(cast.fresh(first), one.ticket.attempt_key)
    assert one.task.run == cast.fresh(first).run
    assert (one.task.goal, one.task.input, one.task.lease_duration_ms) == (first.goal, {"a": "{}"}, board.lease_ms)


def test_who_works_what_nobody_is_assigned_to(board: Board, anna: Chain) -> None:
    Board.objects.filter(pk=board.pk).update(default_worker=cast.READER)
    tasks.file_task(anna, board, goal="Anyone", allow_same=True)
    tasks.file_task(anna, board, goal="Anyone", allow_same=True)
    (one,) = straight_on(wanted(board, 1, **{"": 1}))
    (other,) = long_way(wanted(board, 1, **{"": 1}))
    assert left_by(one) == left_by(other)
    assert TranscriptItem.objects.get(task=one.task.pk).who == cast.READER


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(goal=st.text(min_size=1, max_size=300), title=st.sampled_from(["", "A title"]))
def test_the_session_is_named_as_pages_name_the_task(board: Board, anna: Chain, goal: str, title: str) -> None:
    task = cast.filed(board, anna, f"{goal}x" if cleaning.is_blank(clean_text(goal)) else goal, title=title)
    (one,) = straight_on(wanted(board, 1))
    assert one.task.pk == task.pk
    assert Session.objects.get(pk=(one.task.run or {})["session_id"]).label == f"{cast.WRITER}: {task.label}"


def test_bare_says_whether_there_is_more_to_read(board: Board, anna: Chain) -> None:
    first, *others = [cast.filed(board, anna, f"Task {n}") for n in range(3)]
    TaskDep.objects.create(dependent=others[0], dependency=first)
    one = straight_on(wanted(board))
    assert [found.bare for found in one] == [True, False, True]


def resume(board: Board) -> None:
    cast.claimed(board)
    Task.objects.filter(status="in_progress").update(
        lease_until=None, kept_open_by="suspended", resume_ready_at="2020-01-01T00:00:00Z"
    )


def lapse(board: Board) -> None:
    cast.claimed(board)
    Task.objects.filter(status="in_progress").update(lease_until="2020-01-01T00:00:00Z")


def cap(board: Board) -> None:
    board.roster.filter(name=cast.READER).update(max_running=1)


def prioritise(board: Board) -> None:
    Board.objects.filter(pk=board.pk).update(claim_order="priority")


def try_again(board: Board) -> None:
    worker = cast.agent_chain(board)
    one = cast.claimed(board)
    tasks.hand_back(worker, one.task, claim=one.ticket)


@pytest.mark.parametrize("rarer", [resume, lapse, cap, prioritise, try_again])
def test_where_anything_rarer_is_there_nothing_is_written(
    board: Board, anna: Chain, rarer: Callable[[Board], None]
) -> None:
    for n in range(3):
        cast.filed(board, anna, f"Task {n}")
    rarer(board)
    before = (list(Task.objects.order_by("pk").values()), Event.objects.count(), Attempt.objects.count())
    assert taken(wanted(board)) is None
    assert (list(Task.objects.order_by("pk").values()), Event.objects.count(), Attempt.objects.count()) == before
    assert len(straight_on(wanted(board))) == 3


def test_where_a_board_is_not_as_it_was_read_the_long_way_reads_it_again(board: Board, anna: Chain) -> None:
    for n in range(3):
        cast.filed(board, anna, f"Task {n}")
    as_read, unread = wanted(board, 1), Wanted(board.pk, {cast.WRITER: 1}, 1, board)
    assert taken(as_read)
    assert taken(unread) is None
    Board.objects.filter(pk=board.pk).update(lease_ms=77_000)
    assert taken(as_read) is None
    (one,) = straight_on(as_read)
    assert (one.task.lease_duration_ms, one.task.board.lease_ms) == (77_000, 77_000)


def test_locks_on_a_board_do_not_change_its_version(board: Board, anna: Chain) -> None:
    place = wanted(board, 1)
    with transaction.atomic():
        Board.objects.select_for_update().get(pk=board.pk)
    cast.filed(board, anna)
    assert len(taken(place) or []) == 1


def test_a_paused_board_hands_out_nothing_and_bars_no_other(board: Board, anna: Chain) -> None:
    other = cast.make_board(board.space, "other")
    for place in (board, other):
        cast.filed(place, anna)
    Board.objects.filter(pk=board.pk).update(paused=True, claim_order="priority")
    assert [one.task.board_id for one in taken(wanted(board), wanted(other)) or []] == [other.pk]


def test_what_waits_is_left(board: Board, anna: Chain) -> None:
    waits = cast.filed(board, anna, "Later")
    Task.objects.filter(pk=waits.pk).update(not_before="2990-01-01T00:00:00Z")
    first = cast.filed(board, anna, id="first", held=True)
    cast.filed(board, anna, deps=["first"])
    assert taken(wanted(board)) == []
    tasks.release(anna, first)
    assert [one.task.pk for one in taken(wanted(board)) or []] == [first.pk]


def test_no_more_are_taken_than_there_is_room_for(board: Board, anna: Chain) -> None:
    other = cast.make_board(board.space, "other")
    for place in (board, other):
        for name in (cast.WRITER, cast.READER):
            tasks.file_tasks(anna, place, [Filing(goal=f"{name} {n}", assignee=name) for n in range(10)])
    both = {cast.WRITER: 4, cast.READER: 4}
    found = taken(wanted(board, 6, **both), wanted(other, 3, **both), limit=8) or []
    places = [(one.task.board_id, one.task.assignee) for one in found]
    assert places == [(board.pk, cast.WRITER)] * 4 + [(board.pk, cast.READER)] * 2 + [(other.pk, cast.WRITER)] * 2
    assert Task.objects.filter(status="in_progress").count() == 8


def test_tasks_are_taken_in_the_order_of_filing(board: Board, anna: Chain) -> None:
    filed = [cast.filed(board, anna, f"Task {n}").pk for n in range(40)]
    assert [one.task.pk for one in straight_on(wanted(board, 30))] == filed[:30]
    events = Event.objects.filter(kind="task.claimed").order_by("pk")
    assert list(events.values_list("task", flat=True)) == filed[:30]


def test_twenty_claimers_take_two_hundred_tasks_once_each(board: Board, anna: Chain) -> None:
    tasks.file_tasks(anna, board, [Filing(goal=f"Task {n}", assignee=cast.WRITER) for n in range(200)])

    def take_until_empty() -> list[int]:
        mine: list[int] = []
        while got := straight_on(wanted(board, 3)):
            mine += [one.task.pk for one in got]
        return mine

    found = [key for mine in at_once(*[take_until_empty] * 20) for key in mine]
    assert len(found) == len(set(found)) == 200
    assert Attempt.objects.filter(ended_at__isnull=True).count() == 200
    assert Event.objects.filter(kind="task.claimed").count() == 200
    assert len({uuid.UUID(run["session_id"]) for run in Task.objects.values_list("run", flat=True) if run}) == 200


@pytest.mark.usefixtures("known_to_be_empty")
def test_a_plan_kept_from_an_empty_board_still_reads_next_to_nothing_behind_a_long_history(
    board: Board, anna: Chain
) -> None:
    cast.filed(board, anna)
    assert len(taken(wanted(board)) or []) == 1  # the connection keeps its plans now
    history.fill_tasks(board, anna.session_id, 30_000)
    for n in range(60):
        cast.filed(board, anna, f"Ready {n}")
    place = wanted(board, 1)
    assert len(taken(place) or []) == 1
    plan = planned(
        (straight_claims._statement(claims._NOT_TOLD), straight_claims._params([place], 1, None, cast.HERE, "x"))
    )
    assert plan["Actual Rows"] == 1
    assert buffers(plan) <= 200


@pytest.mark.usefixtures("known_to_be_empty")
def test_a_plan_kept_from_a_small_board_reads_each_of_many_ready_rows_by_its_key(board: Board, anna: Chain) -> None:
    cast.filed(board, anna)
    assert len(taken(wanted(board)) or []) == 1  # the connection keeps its plans now
    for start in range(0, 3_000, 1_000):
        tasks.file_tasks(anna, board, [Filing(goal=f"Task {start + n}", assignee=cast.WRITER) for n in range(1_000)])
    place = wanted(board, 200)
    words = straight_claims._statement(claims._NOT_TOLD)
    plan = planned((words, straight_claims._params([place], 200, None, cast.HERE, "x")))
    assert plan["Actual Rows"] == 200
    assert buffers(plan) <= 200 * 60


def test_the_function_is_never_compiled_at_its_call() -> None:
    with connection.cursor() as cursor:
        cursor.execute("select proconfig from pg_proc where proname = 'boards_claim_2'")
        (settings_of_it,) = cursor.fetchone()
    assert "jit=off" in settings_of_it  # else each call takes seconds on PostgreSQL 15 to 17

"""The claim behind a long history: each arm reads its partial index and next to nothing else (spec: 02 section 2.6).

`bench history` measures it with 1,000,000 rows; here 200,000 show that the plans are right.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from boards.bench import history
from boards.bench.plans import buffers, planned, scans_of_tasks
from boards.models import Board, Task
from boards.tasks import Wanted, arms, claims
from tests import cast

pytestmark = pytest.mark.django_db
HISTORY = 200_000
IN_FRONT = 3_000
MOST_BUFFERS = 200
INDEXES = {
    "resume": "task_resume_ready",
    "lapsed": "task_leases",
    "ready": "task_ready",
    "ready_by_priority": "task_ready_by_priority",
}


def file_for_people(board: Board) -> None:
    """Ready tasks of people, which no drain takes: an index that does not begin with the assignee reads them too."""
    like = Task.objects.filter(board=board, status="pending")[0]
    rows = []
    for n in range(IN_FRONT):
        row = copy.copy(like)
        row.key, row.public_id, row.incarnation_id, row.assignee = None, f"person-{n}", uuid.uuid4(), "somebody"
        rows.append(row)
    Task.objects.bulk_create(rows)


@pytest.fixture(scope="module")
def old_board(django_db_setup: None, django_db_blocker: Any) -> Iterator[Board]:
    """A board with a long history and a few rows for each arm; stored for all tests here, and removed."""
    with django_db_blocker.unblock():
        member = cast.make_member(cast.make_space("history"), "historian")
        board = cast.make_board(member.space, "old", max_enqueued_tasks=None)
        chain = cast.chain_of(member)
        history.fill_tasks(board, chain.session_id, HISTORY)
        for n in range(60):
            cast.filed(board, chain, f"Ready {n}")
        file_for_people(board)
        claimed = [cast.claimed(board).task.pk for _ in range(20)]
        Task.objects.filter(pk__in=claimed[:10]).update(lease_until="2020-01-01T00:00:00Z")
        Task.objects.filter(pk__in=claimed[10:]).update(
            lease_until=None, kept_open_by="suspended", resume_ready_at="2020-01-01T00:00:00Z"
        )
        with connection.cursor() as cursor:
            cursor.execute("analyze boards_task")
        yield board
        with connection.cursor() as cursor:
            cursor.execute("truncate boards_space, boards_user cascade")
            cursor.execute("analyze boards_task")


@pytest.mark.parametrize(("arm", "index"), INDEXES.items())
def test_each_arm_of_the_claim_reads_its_own_index(old_board: Board, arm: str, index: str) -> None:
    wants = [(old_board.pk, cast.WRITER, 50), (old_board.pk, cast.READER, 50)]
    plan = planned(arms.pick_statement(arm, wants, 50))

    assert {used for _, used in scans_of_tasks(plan)} == {index}
    assert all("Index" in kind for kind, _ in scans_of_tasks(plan))
    assert buffers(plan) <= MOST_BUFFERS
    assert plan["Actual Rows"] >= 10


def test_a_row_with_a_chain_is_looked_up_by_index_too(old_board: Board) -> None:
    Task.objects.filter(board=old_board, status="pending").update(attempts=1)
    plan = planned(arms.pick_statement("ready", [(old_board.pk, cast.WRITER, 50)], 50))

    assert {used for _, used in scans_of_tasks(plan)} == {
        "task_ready",
        "task_one_follow_up_at_work",
        "boards_task_pkey",
    }
    assert buffers(plan) <= MOST_BUFFERS
    assert plan["Actual Rows"] >= 10


def test_the_look_for_what_is_rare_reads_indexes_only(old_board: Board) -> None:
    plan = planned(arms.look_statement([old_board.pk]))

    assert {used for _, used in scans_of_tasks(plan)} == {"task_leases", "task_resume_ready"}
    assert buffers(plan) <= MOST_BUFFERS


def test_a_claim_behind_a_long_history_takes_every_arm(old_board: Board) -> None:
    claimed = claims.claim([Wanted(old_board.pk, {cast.WRITER: 50})], limit=50, claimed_by=cast.HERE)

    assert len(claimed) == 50
    assert [one.resumed for one in claimed] == [True] * 10 + [False] * 40
    assert sum(one.task.abandonments for one in claimed) == 10

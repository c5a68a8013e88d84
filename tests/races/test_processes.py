"""Several processes at once, each with a connection of its own (spec: 02 section 8)."""

from __future__ import annotations

import pytest
from django.db import connection

from boards import tasks
from boards.models import Attempt, Event, Task, TaskDep
from boards.tasks import Filing, Wanted
from tests import cast
from tests.races.herd import herd

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def board():
    return cast.make_board(cast.make_space(), max_total_retries=None)


@pytest.fixture
def anna(board):
    return cast.chain_of(cast.make_member(board.space))


def test_twenty_processes_claim_five_hundred_tasks_once_each(board, anna):
    tasks.file_tasks(anna, board, [Filing(goal=f"Task {n}", assignee="writer") for n in range(500)])
    taken = herd("claim_until_empty", 20, board.pk)
    keys = [key for mine in taken for key in mine]
    assert len(taken) == 20
    assert len(keys) == len(set(keys)) == 500
    assert Attempt.objects.filter(ended_at=None).count() == Attempt.objects.count() == 500
    assert set(Task.objects.values_list("status", "attempts", "grant_no")) == {("in_progress", 1, 1)}
    assert Event.objects.filter(kind="task.claimed").count() == 500


def test_overlapping_endings_of_four_processes_keep_thousands_of_counters_exact(board, anna):
    firsts = [Filing(goal=f"First {n}", id=f"f{n}", assignee="writer") for n in range(200)]
    tasks.file_tasks(anna, board, firsts)
    # Each waits for five that different processes end, and neighbours share four of them.
    for part in range(3):
        waiting = [
            Filing(goal=f"Then {n}", assignee="reader", deps=[f"f{(n + k * 41) % 200}" for k in range(5)])
            for n in range(part * 1000, part * 1000 + 1000)
        ]
        tasks.file_tasks(anna, board, waiting)
    assert len(tasks.claim([Wanted(board.pk, {"writer": 200})], limit=200, claimed_by=cast.HERE)) == 200
    assert sum(herd("settle_a_share", 4, board.pk, 4)) == 200, "each ending landed, and no deadlock reached a caller"
    assert Task.objects.filter(assignee="writer", status="completed").count() == 200
    assert Event.objects.filter(kind="task.completed").count() == 200
    with connection.cursor() as cursor:
        cursor.execute(
            """select count(*), count(*) filter (where t.unmet_deps <> d.n) from boards_task t
                cross join lateral (select count(*) n from boards_taskdep e join boards_task b on b.pk = e.dependency_id
                                     where e.dependent_id = t.pk and b.status <> 'completed') d
                where t.assignee = 'reader'"""
        )
        assert cursor.fetchone() == (3000, 0)
    assert TaskDep.objects.count() == 15_000
    assert Task.objects.filter(assignee="reader", unmet_deps=0).count() == 3000

"""A follow-up goes on in the session of its chain (spec: 01 section 3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from boards import tasks
from boards.actors import Chain
from boards.models import Attempt, Board, Session
from boards.states import Status
from boards.workers.protocol import worker
from tests import cast
from tests.workers.drains import InProcess

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_runs_in_its_roots_session_and_another_task_does_not(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    def write(task):
        return {"text": task.id}

    one = drain()
    root = cast.filed(board, anna, id="a")
    one.until_status(root, Status.COMPLETED)
    made = [tasks.file_task(anna, board, goal="More", follow_up_of="a") for _ in range(2)]
    other = cast.filed(board, anna, id="b")
    for task in (*made, other):
        one.until_status(task, Status.COMPLETED)
    sessions = dict(Attempt.objects.values_list("task__public_id", "session"))
    assert sessions["a"] == sessions["a-f1"] == sessions["a-f2"] != sessions["b"]
    assert Session.objects.filter(kind="task_run").count() == 2
    ran = tasks.rows_in_session(board, sessions["a"])
    assert [task.public_id for task in ran] == ["a", "a-f1", "a-f2"]


def test_after_a_root_that_a_person_worked_the_follow_ups_share_the_first_ones_session(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    def write(task):
        return {"text": task.id}

    ben = cast.make_member(board.space, "ben")
    cast.put_on_roster(board, ben)
    root = cast.filed(board, anna, assignee="ben")
    chain = cast.chain_of(ben)
    tasks.complete(chain, root, None, claim=tasks.claim_for_person(chain, root).ticket)
    made = [tasks.file_task(anna, board, goal="More", follow_up_of=root.public_id) for _ in range(2)]
    one = drain()
    for task in made:
        tasks.set_assignee(anna, task, "writer")
        one.until_status(task, Status.COMPLETED)
    assert Attempt.objects.filter(task__in=made).values("session").distinct().count() == 1

"""A worker files a sub-task while a person cancels its task with all that it filed (spec: 01 section 3)."""

from __future__ import annotations

import pytest

from boards import errors, tasks
from boards.models import Task
from boards.tasks import filing
from tests import cast
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def board():
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board):
    return cast.chain_of(cast.make_member(board.space))


def test_a_cancel_that_comes_first_refuses_the_filing_that_had_begun(board, anna, monkeypatch):
    parent = cast.filed(board, anna, "Parent")
    cast.claimed(board)
    take_ids = filing.budgets.take_ids

    def after_the_cancel(*args):
        at_once(lambda: tasks.cancel(anna, parent, cancel_filed=True))
        return take_ids(*args)

    monkeypatch.setattr(filing.budgets, "take_ids", after_the_cancel)
    with pytest.raises(errors.ParentCancelled):
        tasks.file_task(cast.agent_chain(board), board, goal="Child", filed_by_task=parent)
    assert not Task.objects.filter(goal="Child").exists()


@pytest.mark.parametrize("round_", range(8))
def test_nothing_that_a_cancelled_task_filed_goes_on(board, anna, round_):
    parent = cast.filed(board, anna, "Parent")
    cast.claimed(board)
    worker = cast.agent_chain(board)
    at_once(
        lambda: tasks.cancel(anna, parent, cancel_filed=True),
        *[lambda n=n: tasks.file_task(worker, board, goal=f"Child {n}", filed_by_task=parent) for n in range(3)],
    )
    assert set(Task.objects.filter(filed_by_task=parent).values_list("status", flat=True)) <= {"cancelled"}

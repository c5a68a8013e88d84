"""A dependency ends while somebody retries, edits or lets go what waits for it: nobody waits for ever (spec: 02, 8)."""

from __future__ import annotations

import pytest

from boards import tasks
from boards.models import Debt, Task, TaskDep
from tests import cast
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = range(6)


@pytest.fixture
def board():
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board):
    return cast.chain_of(cast.make_member(board.space))


@pytest.fixture
def running(board, anna):
    """A task that is being worked, one that waits for it, and the ticket."""
    first = cast.filed(board, anna, "First")
    second = cast.filed(board, anna, "Second", deps=[first.public_id], assignee="reader")
    return first, second, cast.claimed(board).ticket


def unmet(task: Task) -> int:
    return TaskDep.objects.filter(dependent=task).exclude(dependency__status="completed").count()


@pytest.mark.parametrize("round_", ROUNDS)
def test_a_retry_of_a_dependent_against_the_failure_of_its_dependency(board, anna, running, round_):
    first, second, ticket = running
    tasks.cancel(anna, second)
    at_once(lambda: tasks.fail(cast.agent_chain(board), first, "no", claim=ticket), lambda: tasks.retry(anna, second))
    assert cast.fresh(first).status == "errored"
    assert cast.fresh(second).status == "cancelled", "it waits for what will never complete"
    assert not Debt.objects.exists()


@pytest.mark.parametrize("round_", ROUNDS)
def test_an_edit_of_dependencies_against_the_completion_of_one(board, anna, running, round_):
    first, second, ticket = running
    third = cast.filed(board, anna, "Third", assignee="reader")
    at_once(
        lambda: tasks.complete(cast.agent_chain(board), first, None, claim=ticket),
        lambda: tasks.update_task(anna, third, deps=[first.public_id]),
        lambda: tasks.update_task(anna, second, deps=[]),
    )
    for task in (second, third):
        assert cast.fresh(task).unmet_deps == unmet(task) == 0


@pytest.mark.parametrize("round_", ROUNDS)
def test_a_start_anyway_against_the_retry_of_what_failed(board, anna, running, round_):
    first, second, ticket = running
    tasks.fail(cast.agent_chain(board), first, "no", claim=ticket)
    at_once(lambda: tasks.start_anyway(anna, second), lambda: tasks.retry(anna, first, with_dependents=True))
    assert cast.fresh(second).unmet_deps == unmet(second)
    assert cast.fresh(second).status == "pending"


@pytest.mark.parametrize("round_", ROUNDS)
def test_two_edits_that_each_add_half_of_a_loop(board, anna, round_):
    one, two = (cast.filed(board, anna, f"Task {n}") for n in (1, 2))
    at_once(
        lambda: tasks.update_task(anna, one, deps=[two.public_id]),
        lambda: tasks.update_task(anna, two, deps=[one.public_id]),
    )
    assert TaskDep.objects.count() == 1
    assert sorted(Task.objects.values_list("unmet_deps", flat=True)) == [0, 1]

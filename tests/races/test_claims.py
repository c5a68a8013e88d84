"""Several connections at once: every row has one winner, and every ending happens once (spec: 02 section 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from boards import errors, people, tasks
from boards.models import Attempt, Event, Task, TaskDep
from boards.states import Verb
from boards.tasks import Filing, Recorded, Wanted
from tests import cast
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def board():
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board):
    return cast.chain_of(cast.make_member(board.space))


def test_twenty_claimers_take_two_hundred_tasks_once_each(board, anna):
    tasks.file_tasks(anna, board, [Filing(goal=f"Task {n}", assignee="writer") for n in range(200)])

    def take_until_empty() -> list[int]:
        mine = []
        while got := tasks.claim([Wanted(board.pk, {"writer": 3})], limit=3, claimed_by=cast.HERE):
            mine += [one.task.pk for one in got]
        return mine

    taken = [key for mine in at_once(*[take_until_empty] * 20) for key in mine]
    assert len(taken) == len(set(taken)) == 200
    assert Attempt.objects.filter(ended_at__isnull=True).count() == 200
    assert Event.objects.filter(kind="task.claimed").count() == 200


def test_a_cap_of_the_roster_holds_over_all_claimers(board, anna):
    board.roster.filter(name="writer").update(max_running=2)
    tasks.file_tasks(anna, board, [Filing(goal=f"Task {n}", assignee="writer") for n in range(30)])
    taken = at_once(*[lambda: tasks.claim([Wanted(board.pk, {"writer": 5})], limit=5, claimed_by=cast.HERE)] * 8)
    assert sum(map(len, taken)) == 2


@pytest.mark.parametrize("round_", range(10))
def test_the_worker_and_a_person_end_one_task_at_the_same_moment(board, anna, round_):
    task = cast.filed(board, anna)
    got = cast.claimed(board)
    worker = cast.agent_chain(board)
    outcomes = at_once(
        lambda: tasks.complete(worker, task, "done", claim=got.ticket),
        lambda: tasks.cancel(anna, task, "stop"),
        lambda: tasks.fail(worker, task, "boom", claim=got.ticket),
    )
    assert sum(o.result is Recorded.RECORDED for o in outcomes) == 1
    endings = Event.objects.filter(task=task, kind__in=["task.completed", "task.cancelled", "task.errored"])
    assert endings.count() == 1
    assert Attempt.objects.filter(task=task, ended_at__isnull=True).count() == 0


@pytest.mark.parametrize("round_", range(10))
def test_a_filing_against_the_ending_of_its_dependency_never_waits_for_ever(board, anna, round_):
    first = cast.filed(board, anna, "First")
    got = cast.claimed(board)
    worker = cast.agent_chain(board)
    _, second = at_once(
        lambda: tasks.complete(worker, first, None, claim=got.ticket),
        lambda: cast.filed(board, anna, "Second", deps=[first.public_id]),
    )
    row = cast.fresh(second)
    assert row.unmet_deps == 0
    assert cast.claimed(board).task.pk == second.pk


def test_overlapping_endings_in_batches_keep_the_counters_exact(board, anna):
    firsts = tasks.file_tasks(
        anna, board, [Filing(goal=f"First {n}", id=f"f{n}", assignee="writer") for n in range(60)]
    )
    names = [first.public_id for first in firsts]
    tasks.file_tasks(
        anna, board, [Filing(goal=f"Then {n}", assignee="reader", deps=names[n % 7 :: 3]) for n in range(120)]
    )
    worker = cast.agent_chain(board)
    held = tasks.claim([Wanted(board.pk, {"writer": 60})], limit=60, claimed_by=cast.HERE)

    def settle(part: list[Any]) -> Callable[[], Any]:
        return lambda: tasks.settle_many(
            [
                tasks.Settlement(Verb.COMPLETE, worker, one.ticket.task_key, tasks.Options(claim=one.ticket))
                for one in part
            ]
        )

    at_once(*[settle(held[n::4]) for n in range(4)])
    assert Task.objects.filter(board=board, status="completed").count() == 60
    for task in Task.objects.filter(board=board, assignee="reader"):
        open_deps = TaskDep.objects.filter(dependent=task).exclude(dependency__status="completed").count()
        assert task.unmet_deps == open_deps == 0


def test_twenty_answers_at_the_same_instant_are_one_decision(board, anna):
    task = cast.filed(board, anna)
    got = cast.claimed(board)
    hold = people.open_hold(cast.agent_chain(board), claim=got.ticket, kind="approval", prompt="Publish?")
    people.suspend(got.ticket)
    answers = at_once(
        *[
            lambda choice=choice: people.answer_hold(anna, hold.pk, choice=choice)
            for choice in ["approve", "reject"] * 10
        ]
    )
    refused = [a for a in answers if isinstance(a, errors.AlreadyAnswered)]
    assert len(refused) == 19
    assert all("Anna" in refusal.sentence for refusal in refused)
    assert Event.objects.filter(task=task, kind="hold.answered").count() == 1
    assert len(tasks.claim([Wanted(board.pk, {"writer": 5})], limit=5, claimed_by=cast.HERE)) == 1


def test_two_failures_at_the_edge_of_the_budget_give_one_retry(anna, board):
    board.max_total_retries = 1
    board.save()
    for n in (1, 2):
        cast.filed(board, anna, f"Task {n}", max_attempts=5)
    held = tasks.claim([Wanted(board.pk, {"writer": 2})], limit=2, claimed_by=cast.HERE)
    worker = cast.agent_chain(board)
    at_once(*[lambda one=one: tasks.fail(worker, one.task, "no", claim=one.ticket) for one in held])
    assert sorted(Task.objects.values_list("status", flat=True)) == ["errored", "pending"]


def test_two_filings_under_one_key_are_one_task(board, anna):
    made = at_once(*[lambda: tasks.file_task(anna, board, goal="Once", idempotency_key="k")] * 6)
    assert len({task.pk for task in made}) == 1
    assert Task.objects.count() == 1


def test_two_filings_of_one_goal_leave_one_open(board, anna):
    made = at_once(*[lambda: tasks.file_task(anna, board, goal="Once")] * 6)
    assert sum(isinstance(one, errors.AlreadyOpen) for one in made) == 5

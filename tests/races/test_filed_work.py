"""A task that waits for what it filed, and several who end that at the same moment (spec: 03 section 4.5)."""

from __future__ import annotations

import threading

import pytest

from boards import tasks
from boards.models import Attempt, Debt, Event, Task
from boards.tasks import Claimed, Filing, Wanted
from tests import cast
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 200


@pytest.fixture
def board():
    return cast.make_board(cast.make_space(), max_total_retries=None)


@pytest.fixture
def anna(board):
    return cast.chain_of(cast.make_member(board.space))


def claim_all(board, name: str) -> list[Claimed]:
    return tasks.claim([Wanted(board.pk, {name: 500})], limit=500, claimed_by=cast.HERE)


def parents_with(board, anna, children: int) -> tuple[list[Claimed], dict[int, list[Claimed]]]:
    """As many parents as there are rounds, each with so many open tasks that it filed; all of them claimed."""
    tasks.file_tasks(anna, board, [Filing(goal=f"Parent {n}", assignee="writer") for n in range(ROUNDS)])
    parents = claim_all(board, "writer")
    worker = cast.agent_chain(board)
    for one in parents:
        filings = [Filing(goal=f"Child {n} of {one.task.pk}", assignee="reader") for n in range(children)]
        tasks.file_tasks(worker, board, filings, filed_by_task=one.task)
    found: dict[int, list[Claimed]] = {one.task.pk: [] for one in parents}
    while claimed := claim_all(board, "reader"):
        for one in claimed:
            found[Task.objects.values_list("filed_by_task", flat=True).get(pk=one.task.pk)].append(one)
    return parents, found


def each_parent_ended_once(parents: list[Claimed]) -> None:
    keys = [one.task.pk for one in parents]
    assert set(Task.objects.filter(pk__in=keys).values_list("status", "kept_open_by")) == {("completed", "")}
    assert Event.objects.filter(task__in=keys, kind="task.completed").count() == ROUNDS
    assert set(Attempt.objects.filter(task__in=keys).values_list("ending", flat=True)) == {"completed"}
    assert not Debt.objects.exists()


def in_step(*jobs) -> None:
    """Each job does its part of every round; all begin a round together."""
    gate = threading.Barrier(len(jobs))

    def every_round(job) -> None:
        for n in range(ROUNDS):
            gate.wait(60)
            job(n)

    at_once(*[lambda job=job: every_round(job) for job in jobs])


def test_the_two_last_end_at_the_same_moment_and_the_parent_ends_once(board, anna):
    parents, children = parents_with(board, anna, 2)
    worker, reader = cast.agent_chain(board), cast.agent_chain(board, "reader")
    for one in parents:
        assert tasks.complete(worker, one.task, one.task.pk, claim=one.ticket).status == "in_progress"

    def ends(which: int):
        def end(n: int) -> None:
            child = children[parents[n].task.pk][which]
            assert tasks.complete(reader, child.task, None, claim=child.ticket).status == "completed"

        return end

    in_step(ends(0), ends(1))
    each_parent_ended_once(parents)
    assert all(
        output == key
        for key, output in Task.objects.filter(attempts=1, output__isnull=False).values_list("pk", "output")
    )


def test_the_parent_hands_in_as_its_last_filed_task_ends(board, anna):
    parents, children = parents_with(board, anna, 1)
    worker, reader = cast.agent_chain(board), cast.agent_chain(board, "reader")
    kept = []
    child_ended, handed_in = threading.Event(), threading.Event()

    def hands_in(n: int) -> None:
        if n == 0:  # the first two rounds have one order each, the others whichever comes up
            assert child_ended.wait(60)
        kept.append(tasks.complete(worker, parents[n].task, None, claim=parents[n].ticket).status == "in_progress")
        if n == 1:
            handed_in.set()

    def ends(n: int) -> None:
        if n == 1:
            assert handed_in.wait(60)
        (child,) = children[parents[n].task.pk]
        tasks.complete(reader, child.task, None, claim=child.ticket)
        if n == 0:
            child_ended.set()

    in_step(hands_in, ends)
    each_parent_ended_once(parents)
    assert kept[:2] == [False, True]


def test_the_parent_hands_in_as_it_files_one_more(board, anna):
    """Either the filing comes first and holds it, or it has ended and the filed task runs on by itself."""
    tasks.file_tasks(anna, board, [Filing(goal=f"Parent {n}", assignee="writer") for n in range(ROUNDS)])
    parents = claim_all(board, "writer")
    worker = cast.agent_chain(board)

    def hands_in(n: int) -> None:
        tasks.complete(worker, parents[n].task, None, claim=parents[n].ticket)

    def files(n: int) -> None:
        goal = f"Child of {parents[n].task.pk}"
        tasks.file_task(worker, board, goal=goal, assignee="reader", filed_by_task=parents[n].task)

    in_step(hands_in, files)
    for one in Task.objects.filter(filed_by_task__isnull=False).select_related("filed_by_task"):
        parent = one.filed_by_task
        assert parent.status == ("in_progress" if parent.kept_open_by == "filed" else "completed")
    while claimed := claim_all(board, "reader"):
        for one in claimed:
            tasks.complete(cast.agent_chain(board, "reader"), one.task, None, claim=one.ticket)
    each_parent_ended_once(parents)


def test_a_person_cancels_the_parent_as_its_last_filed_task_ends(board, anna):
    parents, children = parents_with(board, anna, 1)
    worker, reader = cast.agent_chain(board), cast.agent_chain(board, "reader")
    for one in parents:
        tasks.complete(worker, one.task, None, claim=one.ticket)

    def ends(n: int) -> None:
        (child,) = children[parents[n].task.pk]
        tasks.complete(reader, child.task, None, claim=child.ticket)

    in_step(ends, lambda n: tasks.cancel(anna, parents[n].task))
    keys = [one.task.pk for one in parents]
    endings = Event.objects.filter(task__in=keys, kind__in=["task.completed", "task.cancelled"])
    assert endings.count() == ROUNDS
    assert set(Task.objects.filter(pk__in=keys).values_list("kept_open_by", flat=True)) == {""}
    assert not Debt.objects.exists()

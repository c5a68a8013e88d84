"""A withdrawn task is never reopened; what it was to do is filed again, as a new one, in its place."""

from __future__ import annotations

import pytest

from boards import actors, errors, tasks
from boards.actors import Chain
from boards.models import Board, Event, Space, Task, TaskDep
from boards.tasks import HoldFiling
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


def withdrawn(board: Board, anna: Chain, **fields: object) -> Task:
    task = cast.filed(board, anna, "Write the notes", **fields)
    tasks.withdraw(actors.service("flows", board.space_id), task)
    return cast.fresh(task)


def deps_of(task: Task) -> set[str]:
    return set(TaskDep.objects.filter(dependent=task).values_list("dependency__public_id", flat=True))


def test_the_new_one_is_what_was_asked_for_and_nothing_of_what_happened(board: Board, anna: Chain) -> None:
    first = cast.filed(board, anna, "First")
    old = withdrawn(
        board, anna, title="Notes", context="In short.", input={"n": 1}, labels=["a"], metadata={"k": 2}, priority=4,
        max_attempts=3, checker="person", deps=[first.public_id],
    )  # fmt: skip
    new = cast.fresh(tasks.file_again(anna, old))
    names = (
        "goal",
        "title",
        "context",
        "input",
        "labels",
        "metadata",
        "priority",
        "assignee",
        "max_attempts",
        "checker",
    )
    assert {name: getattr(new, name) for name in names} == {name: getattr(old, name) for name in names}
    assert (new.status, new.withdrawn, new.error, new.visit_id, new.attempts) == ("pending", None, "", None, 0)
    assert deps_of(new) == {first.public_id}
    assert cast.fresh(old).revision == old.revision


def test_twice_is_once(board: Board, anna: Chain) -> None:
    old = withdrawn(board, anna)
    assert tasks.file_again(anna, old).pk == tasks.file_again(anna, old).pk
    assert Task.objects.count() == 2


def test_what_waits_for_it_may_wait_for_the_new_one(board: Board, anna: Chain) -> None:
    old = cast.filed(board, anna, "Old")
    waiting = cast.filed(board, anna, "Waiting", deps=[old.public_id])
    held = cast.filed(board, anna, "Held", deps=[old.public_id], held=True)
    skipped = cast.filed(board, anna, "Skipped", deps=[old.public_id])
    tasks.cancel(anna, skipped)
    tasks.withdraw(actors.service("flows", board.space_id), old)
    new = tasks.file_again(anna, old, in_its_place=True)
    assert [deps_of(task) for task in (waiting, held)] == [{new.public_id}] * 2
    assert deps_of(skipped) == {old.public_id}
    assert cast.fresh(waiting).unmet_deps == 1
    event = Event.objects.get(task=waiting, kind="task.edited")
    assert (event.data["instead_of"], event.data["waits_for"]) == (old.public_id, new.public_id)
    tasks.complete(cast.agent_chain(board), new, None, claim=cast.claimed(board).ticket)
    assert cast.fresh(waiting).unmet_deps == 0


def test_put_in_its_place_late_it_counts_what_is_done_already(board: Board, anna: Chain) -> None:
    old = cast.filed(board, anna, "Old")
    waiting = cast.filed(board, anna, "Waiting", deps=[old.public_id])
    tasks.withdraw(actors.service("flows", board.space_id), old)
    new = tasks.file_again(anna, old)
    assert deps_of(waiting) == {old.public_id}
    tasks.complete(cast.agent_chain(board), new, None, claim=cast.claimed(board).ticket)
    tasks.file_again(anna, old, in_its_place=True)
    assert (deps_of(waiting), cast.fresh(waiting).unmet_deps) == ({new.public_id}, 0)


def test_dependencies_that_ended_are_left_out_and_open_questions_are_asked_again(board: Board, anna: Chain) -> None:
    first = cast.filed(board, anna, "First")
    question = HoldFiling("confirm", "Start it?")
    old = withdrawn(board, anna, deps=[first.public_id], holds=[question])
    tasks.withdraw(actors.service("flows", board.space_id), first)
    new = cast.fresh(tasks.file_again(anna, old))
    assert deps_of(new) == set()
    assert [hold.prompt for hold in new.holds.all()] == ["Start it?"]
    assert new.open_holds == 1


def test_nothing_else_is_filed_again(board: Board, anna: Chain, space: Space) -> None:
    task = cast.filed(board, anna)
    for _ in range(2):
        with pytest.raises(errors.IllegalTaskTransition, match="Only a task whose due time passed") as refused:
            tasks.file_again(anna, task)
        assert refused.value.code == "bad_state"
        tasks.cancel(anna, task)
    vera = cast.chain_of(cast.make_member(space, "vera", "viewer"))
    with pytest.raises(errors.Forbidden):
        tasks.file_again(vera, withdrawn(board, anna))
    with pytest.raises(errors.TaskNotFound):
        tasks.file_again(cast.chain_of(cast.make_member(cast.make_space("other"), "otto")), task)

"""A named agent as checker: the result is a task of its own, and its verdict is data (spec: 04 section 5)."""

from __future__ import annotations

from typing import Any

import pytest

from boards import errors, tasks
from boards.models import AgentCheck, Event, Task
from boards.states import Status
from boards.tasks import Filing, Wanted, claim
from tests import cast
from tests.people.conftest import Desk, handed_in
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def check_of(task: Task) -> Task:
    found = AgentCheck.objects.get(task=task, attempt=task.attempts).check_task
    assert found is not None
    return found


def says(desk: Desk, task: Task, output: Any) -> Task:
    """The checker's verdict on the task's last hand-in."""
    got = claim([Wanted(desk.board.pk, {cast.READER: 1})], limit=1, lease_ms=60_000, claimed_by=cast.HERE)[0]
    assert got.task.pk == check_of(task).pk
    tasks.complete(cast.agent_chain(desk.board, cast.READER), got.task, output, claim=got.ticket)
    return cast.fresh(task)


def again(desk: Desk, task: Task, output: Any = None) -> Task:
    got = cast.claimed(desk.board)
    assert got.task.pk == task.pk
    tasks.complete(cast.agent_chain(desk.board), got.task, output or {"text": "Better"}, claim=got.ticket)
    return cast.fresh(task)


def test_the_checker_gets_the_result_as_a_task_of_its_own_which_nobody_checks(desk: Desk) -> None:
    task = handed_in(desk, {"text": "Draft"}, checker=cast.READER)
    check = check_of(task)
    assert task.status == Status.NEEDS_CHECK
    assert (check.assignee, check.checker, check.status) == (cast.READER, "none", Status.PENDING)
    assert (check.input["result"], check.input["goal"], check.input["last_result"]) == (
        {"text": "Draft"},
        task.goal,
        None,
    )


@pytest.mark.parametrize(
    "verdict", [{"verdict": "accept"}, {"accepted": True}, {"verdict": "Approved", "words": "Fine."}]
)
def test_a_verdict_that_accepts_completes_it_in_the_agents_name(desk: Desk, verdict: dict[str, Any]) -> None:
    task = says(desk, handed_in(desk, checker=cast.READER), verdict)
    assert task.status == Status.COMPLETED
    event = Event.objects.get(task=task, kind="task.checked")
    assert event.data.get("text", "") == verdict.get("words", "")
    assert [hop["name"] for hop in event.chain] == [cast.READER, "checks"]


@pytest.mark.parametrize(
    "verdict", [{"verdict": "send_back", "words": "Shorter"}, {"accepted": False, "words": "Shorter"}]
)
def test_finished_and_no_is_a_no(desk: Desk, verdict: dict[str, Any]) -> None:
    task = says(desk, handed_in(desk, checker=cast.READER), verdict)
    assert (task.status, task.feedback, task.failures) == (Status.PENDING, "Shorter", 0)


def test_the_next_check_shows_the_hand_in_before_it(desk: Desk) -> None:
    task = says(
        desk, handed_in(desk, {"text": "First"}, checker=cast.READER), {"verdict": "send_back", "words": "More"}
    )
    task = again(desk, task, {"text": "Second"})
    told = check_of(task).input
    assert (told["last_result"], told["result"], told["sent_back_with"]) == (
        {"text": "First"},
        {"text": "Second"},
        "More",
    )


@pytest.mark.parametrize("output", [{"looks": "fine"}, "accept", None, {"verdict": ""}])
def test_a_check_without_a_verdict_leaves_it_to_a_person(desk: Desk, output: Any) -> None:
    task = says(desk, handed_in(desk, checker=cast.READER), output)
    assert (task.status, task.checker) == (Status.NEEDS_CHECK, "person")
    tasks.accept(desk.anna, task)
    assert cast.fresh(task).status == Status.COMPLETED


def test_a_check_that_fails_leaves_it_to_a_person(desk: Desk) -> None:
    task = handed_in(desk, checker=cast.READER)
    tasks.cancel(desk.anna, check_of(task), "Stop that")
    assert (cast.fresh(task).status, cast.fresh(task).checker) == (Status.NEEDS_CHECK, "person")


def test_after_the_last_send_back_the_next_check_is_a_persons(desk: Desk) -> None:
    desk.board.max_send_backs = 2
    desk.board.save(update_fields=["max_send_backs"])
    task = handed_in(desk, checker=cast.READER)
    for _ in range(2):
        task = again(desk, says(desk, task, {"verdict": "send_back", "words": "No"}))
    assert (task.status, task.checker) == (Status.NEEDS_CHECK, "person")
    assert not AgentCheck.objects.filter(task=task, attempt=task.attempts).exists()
    edited = Event.objects.filter(task=task, kind="task.edited").last()
    assert "sent it back 2 times" in edited.data["text"]


def test_a_verdict_on_a_result_that_a_person_decided_meanwhile_changes_nothing(desk: Desk) -> None:
    task = handed_in(desk, checker=cast.READER)
    check = check_of(task)
    tasks.cancel(desk.chain("olga"), task, "Not needed")
    got = claim([Wanted(desk.board.pk, {cast.READER: 1})], limit=1, lease_ms=60_000, claimed_by=cast.HERE)[0]
    tasks.complete(cast.agent_chain(desk.board, cast.READER), got.task, {"verdict": "accept"}, claim=got.ticket)
    assert cast.fresh(task).status == Status.CANCELLED
    assert AgentCheck.objects.get(check_task=check).verdict == "accepted"


def test_a_checker_equal_to_the_assignee_is_refused_when_saved(desk: Desk) -> None:
    with pytest.raises(errors.InvalidInput, match="other than the assignee"):
        cast.filed(desk.board, desk.anna, checker=cast.WRITER)
    task = cast.filed(desk.board, desk.anna, checker=cast.READER)
    with pytest.raises(errors.InvalidInput, match="other than the assignee"):
        tasks.update_task(desk.anna, task, assignee=cast.READER)


def test_no_worker_accepts_by_itself_not_even_the_named_checker(desk: Desk) -> None:
    task = handed_in(desk, checker=cast.READER)
    for name in (cast.WRITER, cast.READER):
        for verb in (tasks.accept, lambda chain, row: tasks.send_back(chain, row, "No")):
            with pytest.raises(errors.Forbidden):
                verb(cast.agent_chain(desk.board, name), task)
    assert cast.fresh(task).status == Status.NEEDS_CHECK


def test_a_member_called_like_the_service_files_no_checks(desk: Desk) -> None:
    chain = cast.chain_of(desk.member("checks"))
    task = tasks.file_task(chain, desk.board, Filing("Write", assignee=cast.WRITER))
    got = cast.claimed(desk.board)
    tasks.complete(cast.agent_chain(desk.board), got.task, {"verdict": "accept"}, claim=got.ticket)
    assert cast.fresh(task).status == Status.COMPLETED
    assert not AgentCheck.objects.exists()


def test_a_hand_in_is_given_to_its_checker_once_whoever_pays(desk: Desk) -> None:
    from boards.people.checking import hand_to_checker

    task = handed_in(desk, checker=cast.READER)
    at_once(*[lambda: hand_to_checker(task.pk, task.attempts)] * 4)
    assert Task.objects.filter(assignee=cast.READER).count() == 1 == AgentCheck.objects.count()

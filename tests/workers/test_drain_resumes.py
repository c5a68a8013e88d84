"""Runs that were cancelled while they waited on a person: taken up once more, told so, and nothing they do counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import actors, errors, tasks
from boards.actors import Chain
from boards.models import Attempt, Board, Debt, Event, Hold, Process, RosterEntry, Task
from boards.states import Status
from boards.workers.protocol import Stopped, worker
from tests import cast
from tests.workers.drains import InProcess, transcript

pytestmark = pytest.mark.django_db(transaction=True)

Drains = Callable[..., InProcess]


@pytest.fixture
def told() -> list[Any]:
    return []


@pytest.fixture
def asks(told: list[Any], registered: None) -> None:
    """A writer that asks, and tidies up when it is told that it was cancelled."""

    @worker("writer")
    async def write(task):
        answer = await task.suspend_for_user(kind="approval", title="Publish?", prompt="Shall it go out?", draft="x")
        if answer.cancelled:
            told.append(await task.step("tidy", lambda: "tidied"))
        return {"cancelled": answer.cancelled}


def suspended(board: Board, anna: Chain, one: InProcess, **fields: Any) -> Task:
    task = cast.filed(board, anna, **fields)
    one.until(lambda: Task.objects.filter(pk=task.pk, kept_open_by="suspended").exists())
    one.until(lambda: not one.drain._work.running)
    return task


def test_it_is_told_and_its_return_is_not_recorded(
    board: Board, anna: Chain, drain: Drains, asks: None, told: list[Any]
) -> None:
    one = drain()
    task = suspended(board, anna, one)
    tasks.cancel(anna, task, "Not wanted")
    debt = Debt.objects.get()
    assert (debt.kind, debt.payer, debt.state) == ("resume", "drain", "owed")
    before = cast.fresh(task)
    one.until(lambda: not Debt.objects.exists())
    assert told == ["tidied"]
    row = cast.fresh(task)
    assert (row.status, row.error, row.output, row.claimed_by) == (Status.CANCELLED, "Not wanted", None, None)
    assert (row.revision, row.grant_no, row.attempts) == (before.revision, before.grant_no, 1)
    assert Attempt.objects.get().ending == Attempt.Ending.CANCELLED
    assert Attempt.objects.get().steps == {}
    assert Hold.objects.get().state == "discarded"
    assert Event.objects.filter(task=task, kind__in=["task.completed", "task.resumed"]).count() == 0
    assert any("is told that it was cancelled" in line for line in transcript(task))


def test_its_progress_is_refused_and_so_is_what_it_files(board: Board, anna: Chain, drain: Drains) -> None:
    seen: list[str] = []

    @worker("writer")
    def write(task):
        answer = task.suspend_for_user(kind="question", prompt="Which?")
        assert answer.cancelled
        assert tasks.current_claim() is not None
        try:
            tasks.file_task(actors.agent("writer", board.space_id), board, goal="More work")
        except errors.ParentCancelled as refusal:
            seen.append(refusal.code)
        try:
            task.report_progress({"n": 1}, "still here")
        except Stopped:
            seen.append("stopped")
            raise

    one = drain()
    task = suspended(board, anna, one)
    tasks.cancel(anna, task)
    one.until(lambda: not Debt.objects.exists())
    assert seen == ["parent_cancelled", "stopped"]
    row = cast.fresh(task)
    assert (row.output, row.status_note) == (None, "")
    assert Task.objects.count() == 1


def test_a_cascade_resumes_it_too(board: Board, anna: Chain, drain: Drains, asks: None, told: list[Any]) -> None:
    one = drain()
    parent = cast.filed(board, anna, "Parent", held=True)
    task = suspended(board, anna, one)
    Task.objects.filter(pk=task.pk).update(filed_by_task=parent.pk)
    tasks.cancel(anna, parent, cancel_filed=True)
    one.until(lambda: told)
    one.until(lambda: not Debt.objects.exists())
    assert cast.fresh(task).status == Status.CANCELLED


def test_a_withdrawn_one_is_not_resumed(board: Board, anna: Chain, drain: Drains, asks: None, told: list[Any]) -> None:
    one = drain()
    task = suspended(board, anna, one)
    tasks.withdraw(actors.service("flows", board.space_id), task)
    assert not Debt.objects.exists()
    one.drain.pass_once()
    assert (told, Hold.objects.get().state) == ([], "discarded")


def test_one_that_worked_is_stopped_not_resumed(board: Board, anna: Chain, drain: Drains) -> None:
    begun = threading.Event()

    @worker("writer")
    def write(task):
        begun.set()
        while True:
            task.messages()

    task = cast.filed(board, anna)
    one = drain()
    one.until(begun.is_set)
    tasks.cancel(anna, task)
    assert Debt.objects.get().kind == "session_stop"
    one.until(lambda: not Debt.objects.exists())


def test_only_a_drain_that_serves_the_assignee_pays(
    board: Board, anna: Chain, drain: Drains, asks: None, told: list[Any]
) -> None:
    one = drain()
    task = suspended(board, anna, one)
    RosterEntry.objects.filter(board=board, name="writer").delete()
    tasks.cancel(anna, task)
    other = drain()
    other.drain.pass_once()
    other.drain.pass_once()
    assert (Debt.objects.get().state, told) == ("owed", [])


def test_one_drain_of_two_tells_it_and_the_other_does_when_that_dies(
    board: Board, anna: Chain, drain: Drains, registered: None
) -> None:
    began: list[int] = []
    go_on = threading.Event()

    @worker("writer")
    def write(task):
        answer = task.suspend_for_user(kind="question", prompt="Which?")
        began.append(1)
        go_on.wait(60)
        return answer.cancelled

    one, two = drain(), drain()
    task = suspended(board, anna, one)
    tasks.cancel(anna, task)
    one.until(lambda: began)
    two.drain._owes = True
    two.drain.pass_once()
    assert (len(began), two.drain._resumes.taken) == (1, {})
    assert Debt.objects.get().data["taken_by"] == str(one.drain.presence.id)
    # The first one dies: nobody takes the debt anew, so it lapses.
    Debt.objects.update(due_at=Now() - timedelta(seconds=1))
    go_on.set()
    two.until(lambda: not Debt.objects.exists())
    assert len(began) == 2
    assert Process.objects.count() == 2


def test_a_shutdown_leaves_it_to_the_next_drain(board: Board, anna: Chain, drain: Drains, registered: None) -> None:
    began: list[int] = []

    @worker("writer")
    def write(task):
        answer = task.suspend_for_user(kind="question", prompt="Which?")
        began.append(1)
        while len(began) == 1:
            task.messages()
        return answer.cancelled

    one = drain(grace_s=0.1)
    task = suspended(board, anna, one)
    tasks.cancel(anna, task)
    one.until(lambda: began)
    one.finish()
    assert Debt.objects.get().state == "owed"
    Debt.objects.update(due_at=Now())
    two = drain()
    two.until(lambda: not Debt.objects.exists())
    assert len(began) == 2


def test_a_retry_meanwhile_makes_it_moot(board: Board, anna: Chain, drain: Drains, asks: None, told: list[Any]) -> None:
    one = drain()
    task = suspended(board, anna, one)
    tasks.cancel(anna, task)
    assert tasks.retry(anna, task).landed
    one.until(lambda: not Debt.objects.exists())
    one.until(lambda: not one.drain._work.running)
    assert told == []

"""A worker files tasks that its own needs (spec: 01 section 3, 03 section 2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from boards import people, tasks
from boards.actors import Chain
from boards.models import Board, Event, Hold, Task
from boards.states import Status
from boards.workers.protocol import worker
from tests import cast
from tests.workers.drains import InProcess

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_it_files_is_its_own_and_filed_once_however_often_it_is_called(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    calls: list[list[str]] = []

    @worker("writer")
    def write(task):
        ids = [task.file_task(f"Read {n}", assignee="reader", input={"n": n}, labels=["part"]) for n in (1, 2)]
        ids.append(task.file_task("Read the rest", assignee="reader", deps=ids, priority=3))
        calls.append(ids)
        task.suspend_for_user(prompt="Go on?")
        return {"filed": ids}

    one = drain()
    task = cast.filed(board, anna, "Write it")
    one.until(lambda: Hold.objects.filter(state="open").exists())
    people.answer_hold(anna, Hold.objects.get().pk, text="Yes")
    one.until(lambda: cast.fresh(task).kept_open_by == "filed")
    assert len(calls) == 2
    assert calls[0] == calls[1]
    filed = list(Task.objects.filter(filed_by_task=task).order_by("pk"))
    assert [row.public_id for row in filed] == calls[0]
    assert [(row.goal, row.input, row.labels, row.priority) for row in filed[1:]] == [
        ("Read 2", {"n": 2}, ["part"], 0),
        ("Read the rest", {}, [], 3),
    ]
    assert filed[2].unmet_deps == 2
    assert filed[0].filer_id == task.attempt_rows.get().session_id
    assert Event.objects.filter(task=filed[0], kind="task.filed").get().actor == "writer"


def test_an_async_worker_files_too_and_a_refusal_is_its_to_catch(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        try:
            await task.file_task("Read it", assignee="nobody")
        except Exception as refusal:
            return {"refused": refusal.code, "filed": await task.file_task("Read it", assignee="reader")}

    one = drain()
    task = cast.filed(board, anna, "Write it")
    one.until(lambda: cast.fresh(task).kept_open_by == "filed")
    output = cast.fresh(task).output
    assert output["refused"] == "unknown_assignee"
    assert Task.objects.get(public_id=output["filed"]).filed_by_task_id == task.pk


def test_secrets_in_what_it_hands_in_are_masked(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    secret = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"

    @worker("writer")
    def write(task):
        token = task.step("token", lambda: secret)
        assert token == secret, "a step finds what it kept"
        task.log(f"signed in with {token}")
        task.report_progress({"token": token}, note=f"with {token}")
        return {"token": token}

    one = drain()
    task = cast.filed(board, anna, "Write it")
    one.until_status(task, Status.COMPLETED)
    row = cast.fresh(task)
    assert row.output == {"token": "ghp_…[masked]"}
    assert row.status_note == "with ghp_…[masked]"
    assert row.attempt_rows.get().output == {"token": "ghp_…[masked]"}
    one.until(lambda: row.transcript.filter(text="signed in with ghp_…[masked]").exists())
    assert not row.transcript.filter(text__contains=secret).exists()


def test_what_it_files_by_the_engines_own_function_is_its_own_too_and_fenced(
    board: Board, anna: Chain, drain: Callable[..., InProcess], lapse: Callable[[Task], None]
) -> None:
    told: list[str] = []

    @worker("writer")
    def write(task):
        tasks.file_task(cast.agent_chain(board), board, goal="In time", assignee="reader")
        lapse(own)
        for files in (tasks.file_task, file_two):
            try:
                files(cast.agent_chain(board), board, goal="Too late", assignee="reader")
            except tasks.LostClaim:
                told.append("lost")

    def file_two(chain, board, **filing):
        return tasks.file_tasks(chain, board, [tasks.Filing(**filing), tasks.Filing(goal="And more")])

    own = cast.filed(board, anna, "Write it")
    drain().until(lambda: len(told) == 2)
    assert list(Task.objects.exclude(pk=own.pk).values_list("goal", "filed_by_task")) == [("In time", own.pk)]

"""Workers that ask people, or are told something, while they work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from boards import people, tasks
from boards.actors import Chain
from boards.models import Board, Hold, Task
from boards.states import Status
from boards.workers.protocol import worker
from tests import cast
from tests.workers.drains import InProcess, transcript

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_question_suspends_and_the_answer_resumes_the_same_attempt(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    done: list[str] = []

    @worker("writer")
    async def write(task):
        async def once():
            done.append("step")
            return {"n": len(done)}

        kept = await task.step("read", once)
        try:
            answer = await task.suspend_for_user(
                kind="approval", title="Publish?", prompt="Shall it go out?", draft="text"
            )
        except Exception:
            return "swallowed"
        return {"approved": answer.approved, "by": answer.by, "note": answer.text, "kept": kept}

    task = cast.filed(board, anna)
    one = drain()
    hold = one.until(lambda: Hold.objects.filter(task=task.pk).first())
    row = one.until(lambda: Task.objects.filter(pk=task.pk, kept_open_by="suspended").first())
    assert (row.status, row.lease_until) == (Status.IN_PROGRESS, None)
    people.answer_hold(anna, hold.pk, choice="approve", text="Well done", shown_hash=hold.draft_hash)
    row = one.until_status(task, Status.COMPLETED)
    assert row.output == {"approved": True, "by": "Anna", "note": "Well done", "kept": {"n": 1}}
    assert (row.attempts, done) == (1, ["step"])
    assert "goes on with the answer" in "\n".join(transcript(task))


def test_a_worker_that_asked_and_left_owes_no_result(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    def write(task):
        answer = task.hold_task_for_user(title="Which name?", prompt="a or b?", options=["a", "b"])
        return answer.choice if answer else "too early"

    task = cast.filed(board, anna)
    one = drain()
    one.until(lambda: Task.objects.filter(pk=task.pk, kept_open_by="suspended").exists())
    people.answer_hold(anna, Hold.objects.get(task=task.pk).pk, choice="b")
    assert one.until_status(task, Status.COMPLETED).output == "b"


def test_an_answer_never_reaches_another_question(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    asked: list[str] = []

    @worker("writer")
    async def write(task):
        asked.append("x")
        await task.suspend_for_user(kind="question", prompt=f"Question {len(asked)}?")

    task = cast.filed(board, anna)
    one = drain()
    hold = one.until(lambda: Hold.objects.filter(task=task.pk).first())
    one.until(lambda: Task.objects.filter(pk=task.pk, kept_open_by="suspended").exists())
    people.answer_hold(anna, hold.pk, text="yes")
    row = one.until_status(task, Status.ERRORED)
    assert "replay_mismatch" in row.error
    assert "“Question 1?”" in row.error
    assert "“Question 2?”" in row.error


def test_a_message_reaches_the_worker_at_its_next_look(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    started = threading.Event()

    @worker("writer")
    async def write(task):
        started.set()
        while not (said := await task.messages()):
            await asyncio.sleep(0.01)
        return said

    task = cast.filed(board, anna)
    one = drain()
    one.until(started.is_set)
    tasks.steer(anna, task.pk, "Use the new name")
    assert one.until_status(task, Status.COMPLETED).output == ["Use the new name"]

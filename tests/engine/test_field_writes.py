"""The field writes of code, operators and the system: what each answers, in every status (spec: 01, 2.5; 02, 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from boards import tasks
from boards.models import Board, Task
from boards.states import Status
from boards.tasks import Reason, Recorded, TaskWriteOutcome
from tests import cast

# Each write that changes something of a task with the label "a", then its repeat, and the event that it leaves.
WRITES: dict[str, Callable[..., TaskWriteOutcome]] = {
    "task.priority_changed": lambda chain, task: tasks.set_priority(chain, task, 7),
    "task.labels_changed": lambda chain, task: tasks.add_label(chain, task, "b"),
    "task.metadata_changed": lambda chain, task: tasks.patch_metadata(chain, task, {"n": 1}),
}
ENDINGS = ["completed", "errored", "cancelled"]


def in_status(board: Board, anna: Any, status: str) -> Task:
    task = cast.filed(board, anna, labels=["a"])
    worker = cast.agent_chain(board)
    if status == Status.CANCELLED:
        tasks.cancel(anna, task)
    elif status != Status.PENDING:
        got = cast.claimed(board)
        if status == Status.COMPLETED:
            tasks.complete(worker, task, {}, claim=got.ticket)
        elif status == Status.ERRORED:
            tasks.fail(worker, task, "No", claim=got.ticket)
    task = cast.fresh(task)
    assert task.status == status
    return task


def events(task: Task, kind: str) -> int:
    return task.events.filter(kind=kind).count()


@pytest.mark.parametrize("status", ["pending", "in_progress", *ENDINGS])
@pytest.mark.parametrize("kind", WRITES)
def test_each_works_in_every_status_and_a_repeat_changes_nothing(board, anna, kind, status) -> None:
    task = in_status(board, anna, status)
    assert WRITES[kind](anna, task).result is Recorded.RECORDED
    again = WRITES[kind](anna, task)
    always = kind == "task.metadata_changed"  # a patch is recorded even when it changes nothing
    assert again.result is (Recorded.RECORDED if always else Recorded.UNCHANGED)
    after = cast.fresh(task)
    assert (after.status, after.revision) == (status, task.revision + (2 if always else 1))
    assert events(task, kind) == (2 if always else 1)
    assert after.write_log == task.write_log  # no receipt


def test_a_label_is_taken_off_once(board, anna) -> None:
    task = in_status(board, anna, "completed")
    assert tasks.remove_label(anna, task, "a").result is Recorded.RECORDED
    assert tasks.remove_label(anna, task, "a").result is Recorded.UNCHANGED
    assert cast.fresh(task).labels == []


@pytest.mark.parametrize("status", ENDINGS)
def test_what_has_ended_is_not_assigned_anew(board, anna, status) -> None:
    task = in_status(board, anna, status)
    outcome = tasks.set_assignee(anna, task, cast.READER)
    assert (outcome.result, outcome.reason, outcome.status) == (Recorded.DECLINED, Reason.TERMINAL, status)
    assert cast.fresh(task).revision == task.revision


def test_where_tasks_are_handed_over_one_that_an_attempt_holds_keeps_its_assignee(board, anna) -> None:
    task = in_status(board, anna, "in_progress")
    assert tasks.set_assignee(anna, task, cast.READER).result is Recorded.RECORDED
    Board.objects.filter(pk=board.pk).update(mode=Board.Mode.DELEGATION)
    outcome = tasks.set_assignee(anna, task, cast.WRITER)
    assert (outcome.result, outcome.reason) == (Recorded.DECLINED, Reason.IMMUTABLE_ASSIGNEE)
    assert cast.fresh(task).assignee == cast.READER
    waiting = cast.filed(board, anna, goal="Another")
    assert tasks.set_assignee(anna, waiting, cast.READER).result is Recorded.RECORDED
    assert tasks.set_assignee(anna, waiting, cast.READER).result is Recorded.UNCHANGED

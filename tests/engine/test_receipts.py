"""Receipts: whether a write landed whose call failed on its way out, in the order of the rules (spec: 02 section 6)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from boards import tasks
from boards.models import Task
from boards.tasks.progress import WriteToken
from boards.tasks.rows import WRITE_LOG_LENGTH
from tests import cast

ROW = uuid.uuid4()


def row(revision: int, *log: tuple[str, int], truncated: bool = False, of: uuid.UUID = ROW) -> Task:
    kept = [{"id": name, "revision": at} for name, at in log]
    return Task(incarnation_id=of, revision=revision, write_log=kept, write_log_truncated=truncated)


@pytest.mark.parametrize(
    ("seen", "landed"),
    [
        (None, None),  # no row
        (row(9, ("mine", 6)), True),
        (row(3, ("mine", 6), of=uuid.uuid4()), True),  # the token comes before all else
        (row(9, of=uuid.uuid4()), None),  # recreated under the same id
        (row(4), None),  # older than what was seen: another copy of the database
        (row(5), False),  # nobody wrote since
        (row(5, truncated=True), False),
        (row(9, ("other", 5), ("another", 8), truncated=True), False),  # its own would have been kept as well
        (row(9, ("other", 6)), False),  # nothing was ever dropped
        (row(9), False),
        (row(9, ("other", 6), ("another", 8), truncated=True), None),  # it may have been dropped
    ],
)
def test_the_row_says_whether_the_write_is_on_it(seen: Task | None, landed: bool | None) -> None:
    assert tasks.did_write_land(seen, WriteToken("mine", ROW, 5)) is landed


def test_the_newest_four_are_kept_and_a_dropped_one_is_said(board: Any, anna: Any, worker: Any) -> None:
    task = cast.filed(board, anna, max_attempts=9)
    tokens = []
    for n in range(WRITE_LOG_LENGTH + 1):
        got = cast.claimed(board)
        tokens.append(tasks.begin_task_write(got.task))
        assert tasks.did_write_land(got.task, tokens[-1]) is False
        tasks.fail(worker, task, "No", claim=got.ticket, write=tokens[-1].id)
        Task.objects.filter(pk=task.pk).update(not_before=None)
        assert cast.fresh(task).write_log_truncated is (n == WRITE_LOG_LENGTH)
    after = cast.fresh(task)
    assert [entry["id"] for entry in after.write_log] == [token.id for token in tokens[1:]]
    assert [tasks.did_write_land(after, token) for token in tokens] == [None, *[True] * WRITE_LOG_LENGTH]


def test_a_write_that_declined_leaves_none(board: Any, anna: Any, worker: Any) -> None:
    task = cast.filed(board, anna)
    got = cast.claimed(board)
    tasks.cancel(anna, task)
    token = tasks.begin_task_write(cast.fresh(task))
    assert not tasks.complete(worker, task, {}, claim=got.ticket, write=token.id).landed
    assert tasks.did_write_land(cast.fresh(task), token) is False

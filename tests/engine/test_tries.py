"""Tries: the wait between them, what spends one, what a retry keeps (spec: 01, "Failures and tries" and "Retry")."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models.functions import Now

from boards import tasks
from boards.actors import Chain
from boards.debts import paying
from boards.models import Board, Task, TranscriptItem
from boards.tasks import Claimed, Recorded, Wanted
from tests import cast


def next_of(board: Board) -> Claimed | None:
    got = tasks.claim([Wanted(board.pk, {cast.WRITER: 1})], limit=1, claimed_by=cast.HERE)
    return got[0] if got else None


def wait_ms(task: Task) -> float | None:
    row: Any = Task.objects.annotate(db_now=Now()).get(pk=task.pk)
    return None if row.not_before is None else (row.not_before - row.updated_at).total_seconds() * 1000


def waited(task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(not_before=Now())


def failed(board: Board, task: Task, worker: Chain) -> None:
    got = next_of(board)
    assert got is not None
    tasks.fail(worker, task, "No", claim=got.ticket)


def test_the_first_retry_follows_at_once_and_the_later_ones_wait_longer_and_longer_with_jitter(
    board: Board, anna: Chain, worker: Chain
) -> None:
    task = cast.filed(board, anna, max_attempts=20)
    failed(board, task, worker)
    assert wait_ms(task) is None
    spans = []
    for _ in range(12):
        failed(board, task, worker)
        assert next_of(board) is None  # not before its time
        spans.append(wait_ms(task) or 0)
        waited(task)
    for n, span in enumerate(spans):
        middle = min(2_000 * 2**n, 300_000)
        assert 0.75 * middle <= span <= 1.25 * middle
    capped = spans[8:]
    assert len(set(capped)) == len(capped)


def test_a_board_may_have_the_first_retry_wait_too(board: Board, anna: Chain, worker: Chain) -> None:
    Board.objects.filter(pk=board.pk).update(retry_backoff_ms=5_000)
    task = cast.filed(board, anna, max_attempts=3)
    failed(board, task, worker)
    assert wait_ms(task) == 5_000
    assert next_of(board) is None
    waited(task)
    got = next_of(board)
    assert got is not None
    assert cast.fresh(task).not_before is None


@pytest.mark.parametrize(
    ("spends", "max_attempts", "statuses", "failures"),
    [
        (False, None, ["pending", "pending"], 0),
        (True, None, ["errored"], 1),
        (True, 2, ["pending", "errored"], 2),
    ],
)
def test_a_send_back_spends_a_try_only_where_the_board_says_so(
    board: Board, anna: Chain, worker: Chain, spends: bool, max_attempts: int | None, statuses: list[str], failures: int
) -> None:
    Board.objects.filter(pk=board.pk).update(send_back_spends_try=spends)
    task = cast.filed(board, anna, checker="person", max_attempts=max_attempts)
    for n, status in enumerate(statuses):
        got = next_of(board)
        assert got is not None
        tasks.complete(worker, task, n, claim=got.ticket)
        tasks.send_back(anna, task, f"Again {n}")
        row = cast.fresh(task)
        assert (row.status, row.feedback) == (status, f"Again {n}")
        assert (row.completed_at is not None) == (status == "errored")
    assert cast.fresh(task).failures == failures


def test_a_lost_worker_a_hand_back_and_a_reclaim_spend_none(
    board: Board, anna: Chain, olga: Chain, worker: Chain
) -> None:
    task = cast.filed(board, anna)
    got = next_of(board)
    assert got is not None
    tasks.hand_back(worker, task, claim=got.ticket)
    next_of(board)
    Task.objects.filter(pk=task.pk).update(lease_until=Now())
    assert tasks.reclaim(olga, task).result is Recorded.RECORDED
    next_of(board)
    Task.objects.filter(pk=task.pk).update(lease_until=Now())
    assert next_of(board) is not None
    row = cast.fresh(task)
    assert (row.status, row.attempts, row.failures, row.abandonments) == ("in_progress", 4, 0, 1)
    assert row.retry_ledger is None


@pytest.mark.parametrize("ending", ["errored", "cancelled"])
def test_a_retry_is_the_same_row_with_all_that_was_said_on_it(
    board: Board, anna: Chain, worker: Chain, ending: str
) -> None:
    task = cast.filed(board, anna)
    tasks.steer(anna, task, "Mind the date")
    got = next_of(board)
    assert got is not None
    tasks.report_progress(worker, task, output={"page": 1}, claim=got.ticket)
    tasks.add_transcript(task.pk, 1, TranscriptItem.Kind.OUTPUT, "Page one")
    tasks.record_spend(anna, task, "r1", "settled", {"input_tokens": 5}, claim=got.ticket)
    if ending == "errored":
        tasks.fail(worker, task, "No paper", claim=got.ticket)
    else:
        tasks.cancel(anna, task, "Not now")
        for debt_id in paying.due_ids(f"drain:{cast.HERE['drain']}"):
            paying.pay(debt_id)
    before = cast.fresh(task)
    assert tasks.retry(anna, task).result is Recorded.RECORDED
    after = cast.fresh(task)
    assert after.feedback == ("No paper" if ending == "errored" else "")
    kept = ("public_id", "incarnation_id", "steers", "output", "started_at", "attempts", "run")
    assert {name: getattr(after, name) for name in kept} == {name: getattr(before, name) for name in kept}
    assert (after.status, after.error, after.completed_at, after.cancelled_via) == ("pending", "", None, "")
    assert after.retry_ledger == {"granted": 1, "denied_by_budget": False}
    assert after.output == {"page": 1}
    assert TranscriptItem.objects.filter(task=task.pk, text="Page one").exists()
    assert tasks.spend_of(after) is not None
    assert next_of(board) is not None

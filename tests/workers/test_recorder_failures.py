"""A result that cannot be recorded in the ordinary way: its receipt says what became of it, and the board keeps an
entry (spec: 03 section 3, "When a result cannot be recorded").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from boards import tasks
from boards.actors import Chain
from boards.debts import operating
from boards.models import Attempt, Board, Debt, Event, Task, TranscriptItem
from boards.queries.task_words import event_words
from boards.states import Status
from boards.tasks import EndingSeen, recorder_failures, recording
from boards.workers.protocol import worker
from tests import cast
from tests.workers.drains import InProcess

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def recorders() -> Iterator[None]:
    before = dict(recording.RECORDERS)
    yield
    recording.RECORDERS.clear()
    recording.RECORDERS.update(before)


@pytest.fixture(autouse=True)
def writer(registered: None) -> None:
    @worker("writer")
    async def write(task: Any) -> Any:
        if task.goal == "Fails":
            raise ValueError("no ink")
        return {"words": task.goal}


def breaks_after_the_commit(of: str, *, forgets: bool = False) -> None:
    """The board's own code leaves something for after the commit that raises; `forgets`: the row's receipts go too."""

    @tasks.record_ending("desk")
    def keep(row: Task, ending: EndingSeen) -> None:
        def fall_over() -> None:
            if forgets:
                Task.objects.filter(pk=row.pk).update(write_log=[], write_log_truncated=True)
            raise RuntimeError("the line was cut")

        if row.goal == of:
            transaction.on_commit(fall_over)


@contextmanager
def refused(statuses: str, goal: str) -> Iterator[None]:
    """The database itself takes no row of that goal in any of these statuses."""
    with connection.cursor() as cursor:
        cursor.execute(
            "create function no_such_row() returns trigger language plpgsql as "
            f"$$ begin if new.goal = '{goal}' and new.status in ({statuses}) "
            "then raise exception 'no room for %', new.status; end if; return new; end $$"
        )
        cursor.execute(
            "create trigger no_such_row before update on boards_task for each row execute function no_such_row()"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("drop trigger no_such_row on boards_task")
            cursor.execute("drop function no_such_row()")


def entries() -> list[dict[str, Any]]:
    return [event.data for event in Event.objects.filter(kind="board.recorder_failed").order_by("pk")]


def test_a_result_that_landed_although_its_call_failed_stands_and_an_entry_says_so(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    breaks_after_the_commit("First")
    task, other = cast.filed(board, anna, "First"), cast.filed(board, anna, "Second")
    one = drain(concurrency=1)
    one.until(lambda: Debt.objects.filter(kind="recorder_failure").exists())
    one.until_status(other, Status.COMPLETED)
    assert (cast.fresh(task).output, cast.fresh(other).status) == ({"words": "First"}, Status.COMPLETED)
    assert not one.drain._work.running, "nothing is tried again"
    [entry] = entries()
    assert entry == {
        "entry": "task-board-recorder-failure",
        "board": "desk",
        "task_id": task.public_id,
        "recorder": "success",
        "verdict": "committed",
        "error": "RuntimeError: the line was cut",
        "run_id": cast.fresh(task).run["request_id"],
    }
    debt = Debt.objects.get(kind="recorder_failure")
    assert (debt.state, debt.task_id, debt.data["verdict"]) == ("undeliverable", task.pk, "committed")
    assert Attempt.objects.get(task=task.pk).ending == "completed"
    lines = TranscriptItem.objects.filter(task=task.pk).values_list("text", flat=True)
    assert not any("cut" in line or "Late" in line for line in lines), "the entry is in no transcript"


def test_of_a_batch_whose_call_failed_after_its_commit_every_result_stands(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    """None is told that it came too late, and none is worked again."""
    breaks_after_the_commit("Breaks")
    filed = [cast.filed(board, anna, goal) for goal in ("Breaks", "One", "Two")]
    one = drain()
    one.until(lambda: all(cast.fresh(task).is_ended for task in filed) and not one.drain._work.running)
    assert [cast.fresh(task).output for task in filed] == [{"words": g} for g in ("Breaks", "One", "Two")]
    told = {entry["task_id"] for entry in entries()}
    assert filed[0].public_id in told
    assert {entry["verdict"] for entry in entries()} == {"committed"}
    assert not TranscriptItem.objects.filter(kind="late").exists()


def test_a_failure_has_a_recorder_too(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    breaks_after_the_commit("Fails")
    task = cast.filed(board, anna, "Fails")
    one = drain()
    one.until(lambda: entries())
    assert (entries()[0]["recorder"], entries()[0]["verdict"]) == ("error", "committed")
    assert cast.fresh(task).error == "ValueError: no ink"


def test_where_nobody_can_tell_the_row_is_released_and_never_worked_twice(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    """The write did land, so the release declines; only the receipt is gone."""
    breaks_after_the_commit("First", forgets=True)
    task = cast.filed(board, anna, "First", max_attempts=3)
    one = drain()
    one.until(lambda: entries())
    row = cast.fresh(task)
    assert (row.status, row.output, row.attempts) == (Status.COMPLETED, {"words": "First"}, 1)
    assert [entry["verdict"] for entry in entries()] == ["undetermined"]


def test_an_undetermined_row_that_was_not_written_fails_on_its_attempt(
    board: Board, anna: Chain, drain: Callable[..., InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = cast.filed(board, anna, "First", max_attempts=2)
    with refused("'completed'", "First"):
        # Five writes with receipts in between leave nothing to tell by.
        real = tasks.settle_many

        def settle(settlements: Any, **named: Any) -> Any:
            Task.objects.filter(pk=task.pk).update(write_log=[], write_log_truncated=True, revision=50)
            return real(settlements, **named)

        monkeypatch.setattr(tasks, "settle_many", settle)
        one = drain()
        one.until(lambda: entries() and not one.drain._work.is_writing)
        monkeypatch.setattr(tasks, "settle_many", real)
    assert entries()[0]["verdict"] == "undetermined"
    assert Attempt.objects.filter(task=task.pk, number=1).get().ending == "failed"
    one.until_status(task, Status.COMPLETED)
    assert cast.fresh(task).attempts == 2


def test_what_did_not_land_takes_the_ordinary_error_path(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    task = cast.filed(board, anna, "First")
    with refused("'completed'", "First"):
        row = drain().until_status(task, Status.ERRORED)
    assert "could not be recorded" in row.error
    assert entries() == []
    assert not Debt.objects.filter(kind="recorder_failure").exists()


def test_what_can_be_recorded_in_no_way_is_left_to_its_lease_and_the_drain_goes_on(
    board: Board, anna: Chain, drain: Callable[..., InProcess], lapse: Callable[[Task], None]
) -> None:
    task, other = cast.filed(board, anna, "First"), cast.filed(board, anna, "Second")
    with refused("'completed', 'errored'", "First"):
        one = drain()
        one.until_status(other, Status.COMPLETED)
        one.until(lambda: not one.drain._work.running)
        assert (cast.fresh(task).status, cast.fresh(task).attempts) == (Status.IN_PROGRESS, 1)
    lapse(task)
    assert one.until_status(task, Status.COMPLETED).attempts == 2


def test_whatever_signs_an_error_holds_the_entry_is_kept(board: Board, anna: Chain) -> None:
    cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    kinds = {"recorder": recorder_failures.Recorder.SUCCESS, "verdict": recorder_failures.Verdict.COMMITTED}
    tasks.note_recorder_failure(cast.agent_chain(board), ticket, **kinds, error="no \x00 such \ud800 sign", run_id="r")
    assert "no \ufffd such \ufffd sign" in Debt.objects.get().last_error
    assert Event.objects.get(kind="board.recorder_failed").data["error"] == "no \ufffd such \ufffd sign"


def test_a_pass_fails_after_every_other_task_and_names_it(
    board: Board, anna: Chain, capsys: pytest.CaptureFixture[str], registered: None
) -> None:
    Board.objects.filter(pk=board.pk).update(on_error="skip")
    breaks_after_the_commit("First")
    task, other = cast.filed(board, anna, "First"), cast.filed(board, anna, "Second")
    with pytest.raises(SystemExit) as ended:
        call_command("drain", "--board", "desk", "--until-idle", "--concurrency", "1")
    assert ended.value.code == 1
    assert (cast.fresh(task).status, cast.fresh(other).status) == (Status.COMPLETED, Status.COMPLETED)
    said = capsys.readouterr().out
    assert "drain ended: all-completed." in said
    assert f"could not record, see Needs you: “First” ({task.public_id}, committed)" in said


def test_a_pass_fails_at_once_where_not_even_the_entry_can_be_kept(
    board: Board, anna: Chain, drain: Callable[..., InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks_after_the_commit("First")
    first, second = cast.filed(board, anna, "First"), cast.filed(board, anna, "Second")
    monkeypatch.setattr(recorder_failures, "NAME", object())  # the entry is no JSON any more
    one = drain(until_idle=True, concurrency=1)
    end = one.until(lambda: one.drain._over())
    assert (end.reason, end.failed) == ("recorder-failure", True)
    assert cast.fresh(first).status == Status.COMPLETED
    assert cast.fresh(second).status == Status.PENDING, "nothing more is claimed"
    assert entries() == []


def test_a_standing_drain_goes_on(
    board: Board, anna: Chain, drain: Callable[..., InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks_after_the_commit("First")
    monkeypatch.setattr(recorder_failures, "NAME", object())
    cast.filed(board, anna, "First")
    second = cast.filed(board, anna, "Second")
    drain(concurrency=1).until_status(second, Status.COMPLETED)


def test_an_operator_marks_it_as_seen(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    olga = cast.chain_of(cast.make_member(board.space, "olga", "operator"))
    breaks_after_the_commit("First")
    cast.filed(board, anna, "First")
    drain().until(lambda: entries())
    debt = Debt.objects.get(kind="recorder_failure")
    assert operating.drop(olga, debt.pk) == "recorder_failure"
    assert not Debt.objects.filter(kind="recorder_failure").exists()
    said = [event_words(event) for event in Event.objects.filter(task=debt.task_id).order_by("pk")]
    assert any("could not record the result of attempt 1, but it was written all the same" in line for line in said)
    assert any("marked as seen that its result could not be recorded" in line for line in said)

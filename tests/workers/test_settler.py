"""Endings are written aside: meanwhile others are claimed, a write that fails is tried again, and none is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from django.db import OperationalError

from boards.actors import Chain
from boards.models import Attempt, Board, Event, Task
from boards.states import Status
from boards.workers import settler
from boards.workers.protocol import worker
from boards.workers.runner import Run
from boards.workers.scribe import Scribe
from boards.workers.settling import Settled
from tests import cast
from tests.waiting import until
from tests.workers.drains import InProcess

pytestmark = pytest.mark.django_db(transaction=True)
Drains = Callable[..., InProcess]


@pytest.fixture(autouse=True)
def works_at_once(registered: None) -> None:
    @worker("writer")
    async def write(task):
        return task.goal


@contextmanager
def _held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Writes of endings wait until the event is set."""
    go, write = threading.Event(), settler.settle

    def waits(batch: Sequence[Run], scribe: Scribe) -> list[Settled]:
        assert go.wait(60)
        return write(batch, scribe)

    monkeypatch.setattr(settler, "settle", waits)
    try:
        yield go
    finally:
        go.set()


def _fails(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> list[Exception]:
    """The next writes raise these, before or after they were committed; answers those that are left to raise."""
    left, write = list(errors), settler.settle

    def raises(batch: Sequence[Run], scribe: Scribe) -> list[Settled]:
        if not left:
            return write(batch, scribe)
        error = left.pop(0)
        if "commit" in str(error):
            write(batch, scribe)
        raise error

    monkeypatch.setattr(settler, "settle", raises)
    return left


def _count(status: Status) -> int:
    return Task.objects.filter(status=status).count()


def test_while_endings_are_written_others_are_worked_up_to_as_many_again(
    board: Board, anna: Chain, drain: Drains, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(9):
        cast.filed(board, anna, f"task {n}")
    with _held_up(monkeypatch) as go:
        one = drain(concurrency=2)
        one.until(lambda: Attempt.objects.count() == 4)
        assert not any(one.drain.pass_once() for _ in range(20))
        assert (_count(Status.IN_PROGRESS), _count(Status.PENDING)) == (4, 5)
        go.set()
        one.until(lambda: _count(Status.COMPLETED) == 9)
    assert Attempt.objects.filter(ending="completed").count() == 9


def test_what_is_worked_one_at_a_time_is_recorded_before_the_next_begins(
    board: Board, anna: Chain, drain: Drains, monkeypatch: pytest.MonkeyPatch
) -> None:
    Board.objects.filter(pk=board.pk).update(concurrency=1)
    for n in range(3):
        cast.filed(board, anna, f"task {n}")
    with _held_up(monkeypatch) as go:
        one = drain(concurrency=8)
        one.until(lambda: any(run.ending is not None for run in one.drain._work.running))
        assert not any(one.drain.pass_once() for _ in range(20))
        assert (_count(Status.IN_PROGRESS), _count(Status.PENDING)) == (1, 2)
        go.set()
        one.until(lambda: _count(Status.COMPLETED) == 3)


def test_a_program_keeps_its_slot_until_its_ending_is_written(
    board: Board, anna: Chain, drain: Drains, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = board.roster.get(name="writer")
    entry.kind, entry.config = "command", {"argv": ["{python}", "-c", "print({})"]}
    entry.save()
    for n in range(3):
        cast.filed(board, anna, f"task {n}")
    with _held_up(monkeypatch) as go:
        one = drain(concurrency=2)
        one.until(lambda: sum(run.ending is not None for run in one.drain._work.running) == 2)
        assert not any(one.drain.pass_once() for _ in range(20))
        assert (_count(Status.IN_PROGRESS), _count(Status.PENDING)) == (2, 1)
        go.set()
        one.until(lambda: _count(Status.COMPLETED) == 3)


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("the server closed the connection"),
        OperationalError("the connection was lost after the commit"),
        RuntimeError("this was nobody's fault"),
    ],
    ids=["away", "away after the commit", "broken"],
)
def test_a_write_that_raised_is_tried_again_and_ends_each_task_once(
    board: Board, anna: Chain, drain: Drains, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    left = _fails(monkeypatch, error)
    task = cast.filed(board, anna, "the notes")
    one = drain()
    with pytest.raises(type(error)):
        one.until_status(task, Status.CANCELLED)
    assert not left
    one.until(lambda: not one.drain._work.running)
    row = cast.fresh(task)
    assert (row.status, row.output, row.attempts) == (Status.COMPLETED, "the notes", 1)
    assert Event.objects.filter(task=task.pk, kind="task.completed").count() == 1
    assert not Event.objects.filter(kind="board.recorder_failed").exists()


def test_a_drain_that_leaves_waits_for_the_write_and_hands_back_nothing_of_it(
    board: Board, anna: Chain, drain: Drains, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = cast.filed(board, anna, "the notes")
    with _held_up(monkeypatch) as go:
        one = drain(begun=False)
        ended: list[object] = []
        thread = threading.Thread(target=lambda: ended.append(one.drain.run()), daemon=True)
        thread.start()
        until(lambda: any(run.ending is not None for run in one.drain._work.running))
        one.drain.stop()
        one.drain.stop()
        thread.join(0.5)
        assert thread.is_alive()
        go.set()
        thread.join(60)
    assert ended
    assert cast.fresh(task).status == Status.COMPLETED
    assert not Event.objects.filter(kind="task.handed_back").exists()


def test_what_failed_before_the_drain_was_told_to_end_has_failed(
    board: Board, anna: Chain, drain: Drains, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ending waits behind a write that takes long; the end of the drain meanwhile does not make it a hand-back."""

    @worker("reader")
    async def read(task):
        raise ValueError("This is wrong.")

    with _held_up(monkeypatch) as go:
        cast.filed(board, anna, "good")
        one = drain(grace_s=0.0)
        one.until(lambda: one.drain._work.is_writing)
        bad = cast.filed(board, anna, "bad", assignee="reader")
        one.until(lambda: any(run.ticket.task_key == bad.pk and run.ending for run in one.drain._work.running))
        one.drain.stop()
        one.until(lambda: one.drain._shutdown._signalled_at)
        go.set()
        one.finish()
    row = cast.fresh(bad)
    assert (row.status, row.failures) == (Status.ERRORED, 1)
    assert "This is wrong." in row.error


def test_a_last_write_that_breaks_is_tried_once_more_by_the_drain_that_leaves(
    board: Board, anna: Chain, drain: Drains, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = cast.filed(board, anna, "the notes")
    with _held_up(monkeypatch) as go:

        def breaks(batch: Sequence[Run], scribe: Scribe) -> list[Settled]:
            assert go.wait(60)
            raise RuntimeError("this was nobody's fault")

        monkeypatch.setattr(settler, "settle", breaks)
        one = drain()
        one.until(lambda: one.drain._work.is_writing)
        threading.Timer(0.2, go.set).start()
        one.close()
    assert cast.fresh(task).status == Status.COMPLETED

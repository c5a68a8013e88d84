"""Transcript lines are stored in order, together, and none is lost to a bad neighbour or an absent database."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import OperationalError

from boards import tasks
from boards.models import Task, TranscriptItem
from boards.tasks import Line
from boards.workers import scribe as scribing
from boards.workers.adapters.pool import DaemonPool
from boards.workers.scribe import Scribe
from tests import cast
from tests.waiting import until


@pytest.fixture
def task(db: None) -> Task:
    board = cast.make_board(cast.make_space())
    return cast.filed(board, cast.chain_of(cast.make_member(board.space)))


def lines() -> list[str]:
    return list(TranscriptItem.objects.order_by("pk").values_list("text", flat=True))


def test_a_batch_is_stored_in_its_order(task: Task) -> None:
    scribe = Scribe()
    for n in range(2500):
        scribe.put(Line(task.pk, 1, str(n)))
    scribe.flush()
    assert lines() == [str(n) for n in range(2500)]


@pytest.mark.django_db(transaction=True)
def test_a_line_of_a_task_that_is_gone_takes_no_other_with_it(task: Task) -> None:
    scribe = Scribe()
    for key, text in ((task.pk, "first"), (task.pk + 1, "of nobody"), (task.pk, "last")):
        scribe.put(Line(key, 1, text))
    scribe.flush()
    assert lines() == ["first", "last"]


def test_lines_wait_for_a_database_that_is_away(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    scribe = Scribe()
    scribe.put(Line(task.pk, 1, "kept"))

    def away(found: Any) -> None:
        raise OperationalError("the connection is closed")

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "add_transcript_lines", away)
        with pytest.raises(OperationalError):
            scribe.flush()
    scribe.put(Line(task.pk, 1, "later"))
    scribe.flush()
    assert lines() == ["kept", "later"]


def test_whoever_says_too_much_waits(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scribing, "MOST_WAITING", 3)
    scribe, said = Scribe(), []

    def talk() -> None:
        for n in range(6):
            scribe.put(Line(task.pk, 1, str(n)))
            said.append(n)

    talker = threading.Thread(target=talk, daemon=True)
    talker.start()
    until(lambda: len(said) == 3)
    scribe.flush()
    talker.join(60)
    assert said == list(range(6))
    scribe.flush()
    assert lines() == [str(n) for n in range(6)]


def test_a_pool_runs_no_more_threads_than_its_size_and_keeps_them() -> None:
    pool = DaemonPool(2, "test")
    gate, names = threading.Barrier(2, timeout=60), set()

    def work() -> None:
        names.add(threading.current_thread().name)
        gate.wait()

    for future in [pool.submit(work) for _ in range(6)]:
        future.result(60)
    assert len(names) == 2
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result(60)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name in names)
    pool.shutdown()


@pytest.mark.django_db(transaction=True)
def test_a_line_that_cannot_be_stored_leaves_a_word_in_its_place(task: Task) -> None:
    scribe = Scribe()
    for text, kind in (("first", "output"), ("odd", "no kind of ours, and too long for one"), ("last", "output")):
        scribe.put(Line(task.pk, 1, text, kind))
    scribe.flush()
    said = lines()
    assert (said[0], said[2]) == ("first", "last")
    assert said[1].startswith("A line is missing here")


def test_lines_that_found_no_room_are_counted_in_the_transcript(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scribing, "MOST_WAITING", 1)
    monkeypatch.setattr(scribing, "PATIENCE_S", 0.01)
    scribe = Scribe()
    for n in range(4):
        scribe.put(Line(task.pk, 1, str(n)))
    scribe.flush()
    assert lines()[0] == "0"
    assert lines()[1].startswith("3 lines are missing here")
    scribe.put(Line(task.pk, 1, "later"))
    scribe.flush()
    assert lines()[2:] == ["later"]

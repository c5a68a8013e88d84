"""A claim by who starts what it takes: row, run, session, first line and event are one write (spec: 02 section 2)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from boards import people, tasks
from boards.actors import Chain
from boards.models import Attempt, Board, Event, Session, Task, TranscriptItem
from boards.tasks import Claimed, Reason, Start, Wanted
from tests import cast


def begin(claimed: Sequence[Claimed]) -> list[Start]:
    return [Start(cast.WRITER, f"Attempt {one.ticket.attempt} of {one.task.public_id}") for one in claimed]


def begun(board: Board, most: int = 1) -> list[Claimed]:
    wanted = [Wanted(board.pk, {cast.WRITER: most})]
    return tasks.claim(wanted, limit=most, lease_ms=60_000, claimed_by=cast.HERE, begin=begin)


def kinds(task: Task) -> list[str]:
    return list(Event.objects.filter(task=task).order_by("pk").values_list("kind", flat=True))


def test_each_row_has_a_run_a_session_a_line_and_one_event(board: Board, anna: Chain) -> None:
    filed = [cast.filed(board, anna, f"Task {n}") for n in range(3)]
    got = begun(board, 3)
    assert [one.task.pk for one in got] == [task.pk for task in filed]
    runs = [cast.fresh(task).run for task in filed]
    assert [run and run["attempt"] for run in runs] == [1, 1, 1]
    assert len({run["session_id"] for run in runs if run}) == len({run["request_id"] for run in runs if run}) == 3
    for one, run in zip(got, runs, strict=True):
        assert one.task.run == run
        assert run is not None
        session = Session.objects.get(pk=run["session_id"])
        assert (session.kind, session.parent_id, session.space_id) == ("task_run", anna.session_id, board.space_id)
        assert Attempt.objects.get(pk=one.ticket.attempt_key).session_id == session.pk
        line = TranscriptItem.objects.get(task=one.task.pk)
        assert (line.text, line.who, line.attempt) == (f"Attempt 1 of {one.task.public_id}", cast.WRITER, 1)
        assert line.session_id == session.pk
        assert kinds(one.task) == ["task.filed", "task.claimed"]


def test_it_was_started_so_nobody_else_links_it(board: Board, anna: Chain, worker: Chain) -> None:
    cast.filed(board, anna)
    (got,) = begun(board)
    outcome = tasks.link_run(worker, got.ticket, uuid.uuid4(), "another")
    assert outcome.reason is Reason.DISALLOWED
    assert cast.fresh(got.task).run == got.task.run


def test_the_next_attempt_and_a_resumed_one_go_on_in_its_session(board: Board, anna: Chain, worker: Chain) -> None:
    task = cast.filed(board, anna, max_attempts=2)
    (first,) = begun(board)
    tasks.fail(worker, task, "No", claim=first.ticket)
    (second,) = begun(board)
    hold = people.open_hold(worker, claim=second.ticket, kind="question", prompt="Which?")
    people.suspend(second.ticket)
    people.answer_hold(anna, hold.pk, text="This one")
    (resumed,) = begun(board)
    assert resumed.resumed
    runs = [one.task.run or {} for one in (first, second, resumed)]
    assert [run["attempt"] for run in runs] == [1, 2, 2]
    assert len({run["session_id"] for run in runs}) == 1
    assert len({run["request_id"] for run in runs}) == 3
    assert Session.objects.filter(kind="task_run").count() == 1
    assert kinds(task)[-1] == "task.resumed"
    assert kinds(task).count("task.claimed") == 2
    assert set(Attempt.objects.values_list("session", flat=True)) == {uuid.UUID(runs[0]["session_id"])}


def test_a_claim_that_starts_nothing_clears_the_run_of_the_attempt_before(
    board: Board, anna: Chain, worker: Chain
) -> None:
    task = cast.filed(board, anna)
    (first,) = begun(board)
    tasks.hand_back(worker, task, claim=first.ticket)
    assert cast.fresh(task).run == first.task.run  # every ending keeps it
    assert cast.claimed(board).task.run is None
    assert cast.fresh(task).run is None


def test_a_start_that_cannot_be_said_undoes_the_claim(board: Board, anna: Chain) -> None:
    task = cast.filed(board, anna)

    def breaks(claimed: Sequence[Claimed]) -> list[Start]:
        raise RuntimeError("nobody knows its words")

    with pytest.raises(RuntimeError):
        tasks.claim([Wanted(board.pk, {cast.WRITER: 1})], limit=1, claimed_by=cast.HERE, begin=breaks)
    row = cast.fresh(task)
    assert (row.status, row.attempts, row.grant_no, row.run) == ("pending", 0, 0, None)
    assert not Attempt.objects.exists()
    assert kinds(task) == ["task.filed"]
    assert [one.task.pk for one in begun(board)] == [task.pk]

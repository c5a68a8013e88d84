"""A worker returns while tasks that it filed are open: its task waits for them, whoever runs it (spec: 03, 4.5)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from boards import tasks
from boards.actors import Chain
from boards.debts import paying
from boards.models import Board, Debt, RosterEntry, Task
from boards.states import Status
from boards.tasks import Filing
from boards.workers import idle, settling
from boards.workers.protocol import worker
from tests import cast
from tests.workers.drains import InProcess, program_entry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("registered")]


def files(count: int = 1, returns: Any = None, report: Any = None, **fields: Any) -> None:
    """The writer files as many tasks for the reader and returns; the reader returns its goal."""

    @worker("writer")
    def write(task):
        if report is not None:
            task.report_progress(report)
        for n in range(count):
            task.file_task(f"Part {n}", **{"assignee": "reader", **fields})
        return returns

    @worker("reader")
    def read(task):
        return task.goal


@pytest.mark.parametrize(
    ("returns", "report", "output"),
    [({"words": 7}, None, {"words": 7}), (None, {"done": 1}, {"done": 1}), ({"words": 7}, {"done": 1}, {"words": 7})],
    ids=["returned", "reported", "both"],
)
def test_one_slot_is_enough_for_it_and_all_that_it_filed(
    board: Board, anna: Chain, drain: Callable[..., InProcess], returns: Any, report: Any, output: Any
) -> None:
    files(3, returns, report)
    one = drain(concurrency=1)
    task = cast.filed(board, anna, "Whole")
    row = one.until_status(task, Status.COMPLETED)
    assert row.output == output
    ended = list(Task.objects.filter(filed_by_task=task).values_list("status", "completed_at"))
    assert {status for status, _ in ended} == {"completed"}
    assert max(at for _, at in ended) <= row.completed_at
    assert "writer handed in “Whole”, which waits for the tasks it filed" in one.lines
    assert not Debt.objects.exists()


def test_an_async_worker_waits_for_them_too(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    async def write(task):
        await task.file_task("Part", assignee="reader")
        return "done"

    @worker("reader")
    async def read(task):
        return None

    task = cast.filed(board, anna, "Whole")
    row = drain().until_status(task, Status.COMPLETED)
    assert row.output == "done"
    assert Task.objects.get(filed_by_task=task).completed_at <= row.completed_at


def test_a_program_waits_for_them_too(
    board: Board, anna: Chain, drain: Callable[..., InProcess], tmp_path: Path
) -> None:
    files()
    filed = tmp_path / "filed"
    program_entry(
        board,
        f"""
import pathlib, time
while not pathlib.Path({str(filed)!r}).exists():
    time.sleep(0.01)
print('{{"words": 7}}')
""",
    )
    one, task = drain(), cast.filed(board, anna, "Whole", assignee="shell")
    one.until(lambda: Task.objects.filter(pk=task.pk, status="in_progress").exists())
    child = tasks.file_task(
        cast.agent_chain(board, "shell"), board, Filing(goal="Part", assignee="reader"), filed_by_task=task
    )
    filed.touch()
    row = one.until_status(task, Status.COMPLETED)
    assert row.output == {"words": 7}
    assert cast.fresh(child).completed_at <= row.completed_at


def test_an_error_fails_the_attempt_at_once(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    def write(task):
        task.file_task("Part", assignee="reader", held=True)
        raise ValueError("no ink")

    task = cast.filed(board, anna, "Whole")
    assert "no ink" in drain().until_status(task, Status.ERRORED).error
    assert Task.objects.get(filed_by_task=task).status == "held"


def test_a_result_of_another_shape_fails_at_once(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    files(returns={"words": "seven"}, held=True)
    Board.objects.filter(pk=board.pk).update(output_schema={"properties": {"words": {"type": "integer"}}})
    task = cast.filed(board, anna, "Whole")
    assert "output/words" in drain().until_status(task, Status.ERRORED).error


def test_a_drain_that_leaves_has_nothing_of_it_to_hand_back(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    files(returns="done", held=True)
    one, task = drain(), cast.filed(board, anna, "Whole")
    one.until(lambda: cast.fresh(task).kept_open_by == "filed")
    one.finish()
    row = cast.fresh(task)
    assert (row.status, row.kept_open_by, row.output) == ("in_progress", "filed", "done")
    child = Task.objects.get(filed_by_task=task)
    tasks.release(anna, child)
    row = drain().until_status(task, Status.COMPLETED)
    assert (row.attempts, row.output) == (1, "done")


def test_a_hand_in_whose_answer_was_lost_is_written_once(
    board: Board, anna: Chain, drain: Callable[..., InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit stands, and the database was away for the answer: the repeat finds it there."""
    files(returns="done", held=True)
    settle_many, cut = tasks.settle_many, threading.Event()

    def cut_once(settlements: Any, **named: Any) -> Any:
        outcomes = settle_many(settlements, **named)
        if not cut.is_set():
            cut.set()
            raise OperationalError("the connection was lost")
        return outcomes

    monkeypatch.setattr(settling.tasks, "settle_many", cut_once)
    one, task = drain(), cast.filed(board, anna, "Whole")
    one.until(lambda: cut.is_set() and not one.drain._work.running, calmly=True)
    row = cast.fresh(task)
    assert (row.status, row.kept_open_by, row.output) == ("in_progress", "filed", "done")
    assert [entry["id"].startswith("end:") for entry in row.write_log] == [True]
    assert not Debt.objects.exists()
    tasks.cancel(anna, Task.objects.get(filed_by_task=task))
    assert cast.fresh(task).status == "completed"


# The idle question.


def test_a_pass_is_over_when_the_last_of_them_has_ended(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    files(2, "done")
    task = cast.filed(board, anna, "Whole")
    one = drain(begun=False, until_idle=True, concurrency=1)
    one.open = False
    assert one.drain.run().reason == "all-completed"
    assert cast.fresh(task).status == "completed"


def kept(board: Board, anna: Chain, **fields: Any) -> tuple[Task, Task]:
    """A task that waits for one that it filed."""
    parent = cast.filed(board, anna, "Whole")
    claimed, worker_chain = cast.claimed(board), cast.agent_chain(board)
    on = fields.pop("on", board)
    child = tasks.file_task(worker_chain, on, Filing(**{"goal": "Part", **fields}), filed_by_task=parent)
    assert tasks.complete(worker_chain, parent, None, claim=claimed.ticket).status == "in_progress"
    return parent, child


def counted(board: Board) -> tuple[int, int]:
    found = idle.standing(board)
    return found.moving, found.waiting


def test_it_is_being_worked_while_what_it_filed_is(board: Board, anna: Chain) -> None:
    kept(board, anna, assignee="reader")
    assert counted(board) == (1, 1)
    assert idle.verdict("complete-or-blocked", idle.standing(board)) == idle.Verdict.GO_ON


def test_it_waits_on_people_where_all_that_it_filed_does(board: Board, anna: Chain) -> None:
    bert = cast.make_member(board.space, "bert")
    cast.put_on_roster(board, bert)
    kept(board, anna, assignee="bert")
    assert counted(board) == (0, 2)
    assert idle.verdict("complete-or-blocked", idle.standing(board)) == idle.Verdict.BLOCKED


def test_what_it_filed_on_another_board_is_worked_there(board: Board, anna: Chain) -> None:
    other = cast.make_board(board.space, "other")
    kept(board, anna, on=other, assignee="reader")
    assert counted(board) == (1, 0)


def test_it_is_being_worked_while_the_look_that_ends_it_is_owed(
    board: Board, anna: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, child = kept(board, anna, assignee="reader")
    monkeypatch.setattr(paying, "pay_in_line", lambda debt_id: None)
    tasks.cancel(anna, child)
    assert counted(board) == (1, 0)
    paying.pay_due()
    assert cast.fresh(parent).status == "completed"


def test_it_takes_no_slot_of_its_worker(board: Board, anna: Chain) -> None:
    RosterEntry.objects.filter(board=board).update(max_running=1)
    kept(board, anna, assignee="writer")
    assert cast.claimed(board).task.goal == "Part"

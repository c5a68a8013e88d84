"""The drain from claim to ending: what it takes, and for whom, in the test's own process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from boards import tasks
from boards.actors import Chain
from boards.live_notices import Listener, Notice
from boards.models import Attempt, Board, Process, RosterEntry, Task, TranscriptItem
from boards.states import Status
from boards.workers.protocol import worker
from tests import cast
from tests.waiting import until
from tests.workers.drains import InProcess, program_entry, transcript

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_filed_task_is_worked_and_done(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    async def write(task):
        await task.report_progress({"read": 1}, note="read the input")
        await task.log("writing")
        return {"text": task.goal.upper(), "of": task.input["n"]}

    task = cast.filed(board, anna, "the notes", input={"n": 3})
    one = drain()
    row = one.until_status(task, Status.COMPLETED)
    assert row.output == {"text": "THE NOTES", "of": 3}
    assert row.attempts == 1
    assert transcript(task)[0].startswith("Attempt 1 started on ")
    assert transcript(task)[1:] == ["writing"]
    attempt = Attempt.objects.get(task=task.pk)
    assert attempt.session is not None
    assert attempt.session.parent_id == task.filer_id
    assert row.run["session_id"] == str(attempt.session_id)
    assert one.lines[0] == "serves writer; has no worker for reader: such tasks wait for a drain that has one"
    assert one.lines[1] == "writer starts “the notes”"
    assert one.lines[2].startswith("writer finished “the notes” in ")


def test_a_sync_worker_is_worked_too(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    def write(task):
        task.report_progress(note="half")
        assert tasks.current_claim().task_id == task.id
        return task.dep_outputs

    first = cast.filed(board, anna, "first", assignee="reader", id="a")
    second = cast.filed(board, anna, "second", deps=["a"])

    @worker("reader")
    async def read(task):
        assert tasks.current_claim().task_id == task.id
        return "read"

    one = drain()
    assert one.until_status(second, Status.COMPLETED).output == {"a": "read"}
    assert cast.fresh(first).output == "read"
    assert tasks.current_claim() is None


def test_the_next_attempt_is_told_what_went_wrong(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    async def write(task):
        if task.attempt == 1:
            raise ValueError("too long")
        return [task.attempt, task.feedback]

    task = cast.filed(board, anna, max_attempts=2)
    assert drain().until_status(task, Status.COMPLETED).output == [2, "ValueError: too long"]


def test_what_only_another_drain_can_run_is_left_to_it(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    other = Process.objects.create(kind="drain", pid=1, assignees=[f"{board.pk}:writer"])

    @worker("reader")
    async def read(task):
        return None

    theirs, ours = cast.filed(board, anna), cast.filed(board, anna, assignee="reader")
    one = drain()
    one.until_status(ours, Status.COMPLETED)
    assert cast.fresh(theirs).status == Status.PENDING
    assert Process.objects.exclude(pk=other.pk).get().assignees == [f"{board.pk}:reader"]


def test_a_worker_that_is_not_registered_is_left_ready_and_said_once(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("reader")
    async def read(task):
        return None

    theirs = cast.filed(board, anna)
    one = drain()
    one.until_status(cast.filed(board, anna, assignee="reader"), Status.COMPLETED)
    RosterEntry.objects.create(board=board, name="editor", kind="python", config={"worker": "not here"})
    one.drain._roster.refresh(at_once=True)
    one.until_status(cast.filed(board, anna, assignee="reader"), Status.COMPLETED)
    row = cast.fresh(theirs)
    assert (row.status, row.attempts) == (Status.PENDING, 0)
    assert Process.objects.get().assignees == [f"{board.pk}:reader"]
    assert [line for line in one.lines if "no worker for" in line] == [
        "serves reader; has no worker for writer: such tasks wait for a drain that has one",
        "has no worker for editor: such tasks wait for a drain that has one",
    ]


def test_a_task_that_nobody_serves_does_not_keep_a_pass_open(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("reader")
    async def read(task):
        return None

    cast.filed(board, anna)
    one = drain(until_idle=True)
    one.until_status(cast.filed(board, anna, assignee="reader"), Status.COMPLETED)
    end = one.until(lambda: one.drain._over())
    assert (end.reason, end.counts) == ("blocked-by-failures", "2 tasks: 1 Ready, 1 Done")


def test_a_board_runs_no_more_at_once_than_its_concurrency(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    Board.objects.filter(pk=board.pk).update(concurrency=2)
    busy: set[str] = set()
    most: list[int] = []
    both = threading.Barrier(2, timeout=60)

    def work(task):
        busy.add(task.id)
        both.wait()
        most.append(len(busy))
        both.wait()
        busy.discard(task.id)

    worker("writer")(work)
    worker("reader")(work)
    filed = [cast.filed(board, anna, f"task {n}", assignee=("writer", "reader")[n % 2]) for n in range(8)]
    one = drain(concurrency=8)
    one.until(lambda: Task.objects.filter(status=Status.COMPLETED).count() == len(filed))
    assert max(most) == 2


def test_a_drain_with_room_for_more_than_one_claim_gives_asks_again_at_once(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    over = threading.Event()

    @worker("writer")
    async def write(task):
        while not over.is_set():
            await asyncio.sleep(0.05)

    count = tasks.MAX_CLAIMED + 1
    Board.objects.filter(pk=board.pk).update(concurrency=count)
    tasks.file_tasks(anna, board, [tasks.Filing(goal=f"Part {n}", assignee="writer") for n in range(count)])
    one = drain(concurrency=count, poll_s=600)
    one.until(lambda: len(one.drain._work.running) == count)
    over.set()
    one.until(lambda: not one.drain._work.running)


def test_tasks_of_nobody_go_to_the_default_worker(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    Board.objects.filter(pk=board.pk).update(default_worker="writer")

    @worker("writer")
    async def write(task):
        return task.assignee

    nobody = cast.filed(board, anna, "nobody's", assignee="")
    gone = cast.filed(board, anna, "of one who left", assignee="reader")
    RosterEntry.objects.get(board=board, name="reader").delete()
    one = drain()
    assert one.until_status(nobody, Status.COMPLETED).output == ""
    assert one.until_status(gone, Status.COMPLETED).output == "reader"


def test_a_paused_board_hands_out_nothing(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    async def write(task):
        return None

    tasks.set_paused(anna, board, True)
    task = cast.filed(board, anna)
    one = drain()
    assert not any(one.drain.pass_once() for _ in range(5))
    tasks.set_paused(anna, board, False)
    one.until_status(task, Status.COMPLETED)


def test_a_program_is_worked_line_by_line(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    code = """
import json, sys, time
task = json.load(sys.stdin)
print("reading", task["goal"]); print("a warning", file=sys.stderr)
print(json.dumps({"n": task["input"]["n"] + 1}))
"""
    program_entry(board, code)
    task = cast.filed(board, anna, "the log", assignee="shell", input={"n": 1})
    row = drain().until_status(task, Status.COMPLETED)
    assert row.output == {"n": 2}
    lines = transcript(task)
    assert "reading the log" in lines
    assert TranscriptItem.objects.get(task=task.pk, text="a warning").data == {"stream": "stderr"}


def test_a_filing_is_taken_up_at_its_notice_and_not_at_the_next_poll(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        return None

    one = drain(begun=False, poll_s=300)
    listener = Listener()
    thread = threading.Thread(target=one.drain.run, args=(listener,), daemon=True)
    thread.start()
    until(lambda: listener.listening)
    task = cast.filed(board, anna)
    until(lambda: cast.fresh(task).status == Status.COMPLETED)
    until(lambda: Process.objects.filter(listening=True).exists())
    one.drain.stop()
    thread.join(60)
    assert not thread.is_alive()


def test_a_board_that_is_made_later_is_served_at_its_first_notice(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        return None

    one = drain(poll_s=300)
    one.until(lambda: not one.drain.pass_once())
    later = cast.make_board(board.space, "later")
    task = cast.filed(later, anna)
    one.drain.hear(Notice(board_id=later.pk))
    one.until_status(task, Status.COMPLETED)

"""Work that is cancelled, lost, or cut short by the end of its drain."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from boards import tasks
from boards.actors import Chain
from boards.models import Attempt, Board, Debt, Event, Process, Task, TranscriptItem
from boards.states import Status
from boards.tasks import Claimed
from boards.workers import loop
from boards.workers.protocol import worker
from boards.workers.runner import Run, Runner
from tests import cast
from tests.waiting import until
from tests.workers.drains import InProcess, program_entry, transcript

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("kind", ["async", "sync", "program"])
def test_a_cancelled_task_stops_its_worker_and_the_stop_is_paid(
    kind: str, board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        await task.log("begun")
        await asyncio.sleep(60)

    @worker("reader")
    def read(task):
        task.log("begun")
        while True:
            time.sleep(0.01)
            task.messages()

    program_entry(board, "import time; print('begun'); time.sleep(60)")
    task = cast.filed(board, anna, assignee={"async": "writer", "sync": "reader", "program": "shell"}[kind])
    one = drain()
    one.until(lambda: "begun" in transcript(task))
    tasks.cancel(anna, task.pk, "Not wanted")
    assert Debt.objects.filter(kind="session_stop").exists()
    one.until(lambda: not Debt.objects.exists())
    one.until(lambda: not one.drain._work.running)
    row = cast.fresh(task)
    assert (row.status, row.error) == (Status.CANCELLED, "Not wanted")


def test_what_is_cancelled_while_its_start_waits_for_the_database_is_not_started(
    board: Board, anna: Chain, drain: Callable[..., InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    @worker("writer")
    async def write(task):
        begun.append(task.goal)

    prepare, away = Runner.prepare, [OperationalError("the server closed the connection")]

    def fails_at_first(runner: Runner, runs: Sequence[Run]) -> None:
        if away:
            raise away.pop()
        prepare(runner, runs)

    monkeypatch.setattr(Runner, "prepare", fails_at_first)
    task = cast.filed(board, anna)
    one = drain()
    with pytest.raises(OperationalError):
        one.until(lambda: begun)
    tasks.cancel(anna, task.pk)
    one.drain._owes = True  # as when the notice of it comes
    one.until(lambda: not one.drain._work.running and not Debt.objects.exists())
    assert begun == []
    assert cast.fresh(task).status == Status.CANCELLED


def take_away(task: Task) -> None:
    """Let the lease run out, as it does for a drain that cannot reach the database."""
    with connection.cursor() as cursor:
        cursor.execute("update boards_task set lease_until = statement_timestamp() where pk = %s", [task.pk])


def test_a_lost_claim_aborts_the_worker_and_its_late_result_is_kept_aside(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    Board.objects.filter(pk=board.pk).update(lease_ms=6000)
    go_on = threading.Event()

    @worker("writer")
    async def write(task):
        if task.attempt == 2:
            return "second"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            go_on.wait(60)
            return "first"

    task = cast.filed(board, anna)
    one = drain()
    one.until_status(task, Status.IN_PROGRESS)
    one.until(lambda: Task.objects.filter(pk=task.pk, run__isnull=False).exists())
    take_away(task)
    one.until(lambda: cast.fresh(task).attempts == 2)
    go_on.set()
    row = one.until_status(task, Status.COMPLETED)
    assert (row.output, row.abandonments) == ("second", 1)
    one.until(lambda: '"first"' in TranscriptItem.objects.filter(task=task, kind="late").values_list("text", flat=True))
    assert Event.objects.filter(task=task.pk, kind="task.claimed", cause="lost worker").exists()


def test_work_that_ends_within_the_grace_counts(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    begun = threading.Event()

    @worker("writer")
    async def write(task):
        begun.set()
        await asyncio.sleep(0.2)
        return "in time"

    task = cast.filed(board, anna)
    late = cast.filed(board, anna, "late")
    one = drain(concurrency=1, grace_s=10)
    one.until(begun.is_set)
    assert not one.finish().stuck
    assert cast.fresh(task).output == "in time"
    assert (cast.fresh(late).status, cast.fresh(late).attempts) == (Status.PENDING, 0)


@pytest.mark.parametrize("kind", ["async", "sync", "program", "deaf"])
def test_work_past_the_grace_is_handed_back_unspent(
    kind: str, board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    release = threading.Event()

    @worker("writer")
    async def write(task):
        await task.log("begun")
        await asyncio.sleep(60)

    @worker("reader")
    def read(task):
        task.log("begun")
        release.wait(60)

    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" if kind == "deaf" else ""
    program_entry(board, f"import time; {deaf} print('begun'); time.sleep(60)")
    assignee = {"async": "writer", "sync": "reader"}.get(kind, "shell")
    task = cast.filed(board, anna, assignee=assignee, max_attempts=3)
    one = drain(grace_s=0.1)
    one.until(lambda: "begun" in transcript(task))
    end = one.finish()
    release.set()
    assert end.stuck == (kind == "sync")
    row = cast.fresh(task)
    assert (row.status, row.failures, row.abandonments, row.lease_until) == (Status.PENDING, 0, 0, None)
    assert Attempt.objects.get(task=task.pk).ending == Attempt.Ending.HANDED_BACK
    assert Process.objects.get().stopped_at is not None


def test_a_second_signal_does_not_wait_for_the_grace(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    program_entry(board, "import signal, time; signal.signal(15, signal.SIG_IGN); print('begun'); time.sleep(3600)")
    task = cast.filed(board, anna, assignee="shell")
    one = drain(grace_s=3600)
    one.until(lambda: "begun" in transcript(task))
    one.drain.stop()
    one.finish()  # the second signal; it does not wait for an hour
    assert cast.fresh(task).status == Status.PENDING


def test_steps_of_a_lost_attempt_are_not_done_again(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    Board.objects.filter(pk=board.pk).update(lease_ms=6000)
    done: list[int] = []

    @worker("writer")
    async def write(task):
        kept = await task.step("once", lambda: done.append(task.attempt) or "kept")
        if task.attempt == 1:
            await asyncio.sleep(60)
        return kept

    task = cast.filed(board, anna)
    one = drain()
    one.until(lambda: done and Attempt.objects.get(task=task.pk).steps)
    take_away(task)
    assert one.until_status(task, Status.COMPLETED).output == "kept"
    assert done == [1]


def test_a_database_that_drops_its_connections_costs_no_work(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    begun = threading.Event()

    @worker("writer")
    async def write(task):
        begun.set()
        for n in range(20):
            await task.report_progress({"n": n})
            await asyncio.sleep(0.01)
        return "done"

    task = cast.filed(board, anna)
    one = drain(begun=False)
    thread = threading.Thread(target=one.drain.run, daemon=True)
    thread.start()
    begun.wait(60)
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    until(lambda: cast.fresh(task).status == Status.COMPLETED)
    one.drain.stop()
    thread.join(60)
    assert not thread.is_alive()
    row = cast.fresh(task)
    assert (row.output, row.attempts) == ("done", 1)


@pytest.mark.parametrize("told", ["nothing", "stop"])
def test_what_was_claimed_without_an_answer_goes_back_also_where_the_drain_ends_meanwhile(
    told: str, board: Board, anna: Chain, drain: Callable[..., InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    @worker("writer")
    async def write(task):
        return task.goal

    claim, lost = tasks.claim, []
    one = drain(begun=False, until_idle=True)

    def claim_unheard(*given: Any, **named: Any) -> list[Claimed]:
        claimed = claim(*given, **named)
        if claimed and not lost:
            lost.append(claimed)
            if told == "stop":
                one.drain.stop()
            raise OperationalError("the connection was lost after the commit")
        return claimed

    monkeypatch.setattr(loop.tasks, "claim", claim_unheard)
    task = cast.filed(board, anna)
    one.open = False
    assert one.drain.run().reason == ("stopped" if told == "stop" else "all-completed")
    assert lost
    row = cast.fresh(task)
    assert (row.status, row.abandonments) == (Status.PENDING if told == "stop" else Status.COMPLETED, 0)
    assert Event.objects.filter(task=task.pk, kind="task.handed_back").count() == 1


def test_a_worker_that_blocks_the_loop_is_named_and_loses_nobodys_lease(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    lease = timedelta(seconds=3)
    Board.objects.filter(pk=board.pk).update(lease_ms=lease / timedelta(milliseconds=1))
    let_go = threading.Event()

    @worker("writer")
    async def blocks(task):
        let_go.wait(60)
        return task.attempt

    task = cast.filed(board, anna)
    one = drain()
    one.until(lambda: any("held up" in line for line in transcript(task)))
    first = cast.fresh(task).lease_until
    one.until(lambda: cast.fresh(task).lease_until > first + lease)  # renewed when the first was over
    let_go.set()
    assert one.until_status(task, Status.COMPLETED).output == 1

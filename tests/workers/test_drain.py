"""The drain from claim to ending, in the test's own process and on a real database."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from boards import people, tasks
from boards.actors import Chain
from boards.live_notices import Listener
from boards.models import Attempt, Board, Debt, Event, Hold, Process, RosterEntry, Task, TranscriptItem
from boards.states import Status
from boards.workers.protocol import EndsForGood, worker
from tests import cast
from tests.waiting import until
from tests.workers.drains import InProcess, program_entry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def board() -> Board:
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board: Board) -> Chain:
    return cast.chain_of(cast.make_member(board.space))


@pytest.fixture
def drain(registered: None) -> Iterator[Callable[..., InProcess]]:
    """Make a drain; those that a test leaves open are closed after it."""
    made: list[InProcess] = []

    def make(**options: Any) -> InProcess:
        made.append(InProcess(**options))
        return made[-1]

    yield make
    for one in made:
        if one.open:
            one.close()


def transcript(task: Task) -> list[str]:
    return list(TranscriptItem.objects.filter(task=task.pk).order_by("pk").values_list("text", flat=True))


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
    assert one.lines[0] == "serves writer; has no worker for reader"
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


def test_a_failure_says_why_and_keeps_the_trace(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    async def write(task):
        raise ValueError("the input has no name")

    task = cast.filed(board, anna)
    row = drain().until_status(task, Status.ERRORED)
    assert row.error == "ValueError: the input has no name"
    trace = TranscriptItem.objects.get(task=task.pk, kind="error")
    assert "Traceback" in trace.text


def test_the_next_attempt_is_told_what_went_wrong(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    async def write(task):
        if task.attempt == 1:
            raise ValueError("too long")
        return [task.attempt, task.feedback]

    task = cast.filed(board, anna, max_attempts=2)
    assert drain().until_status(task, Status.COMPLETED).output == [2, "ValueError: too long"]


def test_a_worker_that_is_not_there_fails_at_once_in_a_sentence(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    RosterEntry.objects.create(board=board, name="shell", kind="command", config={"argv": ["no-such-program"]})
    python, program = cast.filed(board, anna), cast.filed(board, anna, assignee="shell")
    one = drain()
    assert "No Python worker is registered as 'writer'" in one.until_status(python, Status.ERRORED).error
    assert "“no-such-program” could not be started" in one.until_status(program, Status.ERRORED).error


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


def test_a_worker_may_end_its_task_for_good(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    async def write(task):
        raise EndsForGood(task.id, "nothing to write", ending="cancelled")

    @worker("reader")
    def read(task):
        raise EndsForGood("another", "not mine")

    cancelled = cast.filed(board, anna, max_attempts=5)
    failed = cast.filed(board, anna, assignee="reader")
    one = drain()
    assert one.until_status(cancelled, Status.CANCELLED).error == "nothing to write"
    assert "not mine" in one.until_status(failed, Status.ERRORED).error


def test_a_question_suspends_and_the_answer_resumes_the_same_attempt(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    done: list[str] = []

    @worker("writer")
    async def write(task):
        async def once():
            done.append("step")
            return {"n": len(done)}

        kept = await task.step("read", once)
        try:
            answer = await task.suspend_for_user(
                kind="approval", title="Publish?", prompt="Shall it go out?", draft="text"
            )
        except Exception:
            return "swallowed"
        return {"approved": answer.approved, "by": answer.by, "note": answer.text, "kept": kept}

    task = cast.filed(board, anna)
    one = drain()
    hold = one.until(lambda: Hold.objects.filter(task=task.pk).first())
    row = one.until(lambda: Task.objects.filter(pk=task.pk, kept_open_by="suspended").first())
    assert (row.status, row.lease_until) == (Status.IN_PROGRESS, None)
    people.answer_hold(anna, hold.pk, choice="approve", text="Well done", shown_hash=hold.draft_hash)
    row = one.until_status(task, Status.COMPLETED)
    assert row.output == {"approved": True, "by": "Anna", "note": "Well done", "kept": {"n": 1}}
    assert (row.attempts, done) == (1, ["step"])
    assert "goes on with the answer" in "\n".join(transcript(task))


def test_a_worker_that_asked_and_left_owes_no_result(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    def write(task):
        answer = task.hold_task_for_user(title="Which name?", prompt="a or b?", options=["a", "b"])
        return answer.choice if answer else "too early"

    task = cast.filed(board, anna)
    one = drain()
    one.until(lambda: Task.objects.filter(pk=task.pk, kept_open_by="suspended").exists())
    people.answer_hold(anna, Hold.objects.get(task=task.pk).pk, choice="b")
    assert one.until_status(task, Status.COMPLETED).output == "b"


def test_an_answer_never_reaches_another_question(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    asked: list[str] = []

    @worker("writer")
    async def write(task):
        asked.append("x")
        await task.suspend_for_user(kind="question", prompt=f"Question {len(asked)}?")

    task = cast.filed(board, anna)
    one = drain()
    hold = one.until(lambda: Hold.objects.filter(task=task.pk).first())
    one.until(lambda: Task.objects.filter(pk=task.pk, kept_open_by="suspended").exists())
    people.answer_hold(anna, hold.pk, text="yes")
    row = one.until_status(task, Status.ERRORED)
    assert "replay_mismatch" in row.error
    assert "“Question 1?”" in row.error
    assert "“Question 2?”" in row.error


def test_a_message_reaches_the_worker_at_its_next_look(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    started = threading.Event()

    @worker("writer")
    async def write(task):
        started.set()
        while not (said := await task.messages()):
            await asyncio.sleep(0.01)
        return said

    task = cast.filed(board, anna)
    one = drain()
    one.until(started.is_set)
    tasks.steer(anna, task.pk, "Use the new name")
    assert one.until_status(task, Status.COMPLETED).output == ["Use the new name"]


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


def take_away(task: Task) -> None:
    """Let the lease run out, as it does for a drain that cannot reach the database."""
    with connection.cursor() as cursor:
        cursor.execute("update boards_task set lease_until = statement_timestamp() where pk = %s", [task.pk])


def test_a_lost_claim_aborts_the_worker_and_its_late_result_is_kept_aside(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    Board.objects.filter(pk=board.pk).update(lease_ms=1000)
    go_on = threading.Event()

    @worker("writer")
    async def write(task):
        if task.attempt == 2:
            return "second"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            go_on.wait(10)
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
    one.until(lambda: any("Late result" in line and "first" in line for line in transcript(task)))
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
        release.wait(30)

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
    program_entry(board, "import signal, time; signal.signal(15, signal.SIG_IGN); print('begun'); time.sleep(60)")
    task = cast.filed(board, anna, assignee="shell")
    one = drain(grace_s=60)
    one.until(lambda: "begun" in transcript(task))
    begun = time.monotonic()
    one.drain.stop()
    one.finish()
    assert time.monotonic() - begun < 3
    assert cast.fresh(task).status == Status.PENDING


def test_a_board_runs_no_more_at_once_than_its_concurrency(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    Board.objects.filter(pk=board.pk).update(concurrency=2)
    busy: set[str] = set()
    most: list[int] = []
    both = threading.Barrier(2, timeout=10)

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


@pytest.mark.parametrize(
    ("poison", "words"),
    [
        ("float('nan')", "output is nan"),
        ("{'when': object()}", "output.when is a object"),
        ("{1: 2}", "output has the key 1"),
        ("[(1, 2)]", "output[0] is a tuple"),
    ],
)
def test_a_result_that_is_no_json_fails_with_its_path(
    poison: str, words: str, board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        return eval(poison)

    task = cast.filed(board, anna)
    assert words in drain().until_status(task, Status.ERRORED).error


def test_hostile_text_is_cleaned_and_cut_and_the_task_goes_on(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    def write(task):
        task.log("nul \x00 surrogate \ud800 \x1b[31mred")
        task.log("x" * 5_000_000)
        task.report_progress({"a": "\x00"}, note="\x00 note")
        return {"text": "\x00\ud800" + "y" * 2_000_000}

    task = cast.filed(board, anna)
    row = drain().until_status(task, Status.COMPLETED)
    assert row.output["cut"] is True
    lines = transcript(task)
    assert lines[1] == "nul \ufffd surrogate \ufffd \x1b[31mred"
    assert lines[2].endswith("… [cut at 64 KiB]")


def test_an_output_that_does_not_match_fails_with_its_path(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    Board.objects.filter(pk=board.pk).update(output_schema=schema)

    @worker("writer")
    async def write(task):
        return {"n": task.input["n"]}

    program_entry(board, "pass")
    right, wrong = cast.filed(board, anna, input={"n": 1}), cast.filed(board, anna, "wrong", input={"n": "one"})
    nothing = cast.filed(board, anna, "nothing", assignee="shell")
    one = drain()
    one.until_status(right, Status.COMPLETED)
    assert "output/n" in one.until_status(wrong, Status.ERRORED).error
    assert "ended without result" in one.until_status(nothing, Status.ERRORED).error


def test_the_latest_checkpoint_is_the_output_of_a_worker_that_returns_nothing(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        await task.report_progress({"n": 1})
        await task.report_progress({"n": 2})

    task = cast.filed(board, anna)
    assert drain().until_status(task, Status.COMPLETED).output == {"n": 2}


def test_steps_of_a_lost_attempt_are_not_done_again(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    Board.objects.filter(pk=board.pk).update(lease_ms=1000)
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
    begun.wait(20)
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    until(lambda: cast.fresh(task).status == Status.COMPLETED)
    one.drain.stop()
    thread.join(20)
    assert not thread.is_alive()
    row = cast.fresh(task)
    assert (row.output, row.attempts) == ("done", 1)


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
    until(lambda: cast.fresh(task).status == Status.COMPLETED, 10)
    until(lambda: Process.objects.filter(listening=True).exists())
    one.drain.stop()
    thread.join(20)
    assert not thread.is_alive()


def test_a_worker_that_blocks_the_loop_is_named_and_loses_nobodys_lease(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    Board.objects.filter(pk=board.pk).update(lease_ms=1000)
    let_go = threading.Event()

    @worker("writer")
    async def blocks(task):
        let_go.wait(20)
        return task.attempt

    task = cast.filed(board, anna)
    one = drain()
    one.until(lambda: any("held up" in line for line in transcript(task)))
    begun = time.monotonic()
    one.until(lambda: time.monotonic() - begun > 1.2)  # longer than the lease
    let_go.set()
    assert one.until_status(task, Status.COMPLETED).output == 1

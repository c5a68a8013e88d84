"""Drains that are killed, told to end, or lose their database: the task is done at the end, and the log says why."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from django.test import Client

from boards import people
from boards.models import Attempt, Board, Event, Hold, Process, RosterEntry, Task, TranscriptItem, User
from boards.states import Status
from tests import cast
from tests.crash.processes import Started, database_url, several
from tests.waiting import lives, until
from tests.workers.drains import program_entry

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

FAMILY = """
import os, subprocess, sys, time, json
task = json.load(sys.stdin)
if task["attempt"] == 1:
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    print(os.getpid(), child.pid)
    time.sleep(3600)
print(json.dumps({"attempt": task["attempt"]}))
"""


@pytest.fixture
def board() -> Board:
    board = cast.make_board(cast.make_space(), lease_ms=5000)
    RosterEntry.objects.create(board=board, name="deaf", kind="python", config={"worker": "deaf"})
    program_entry(board, FAMILY)
    return board


@pytest.fixture
def drain(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    with several() as made:

        def start(*words: str, **env: str) -> Started:
            made.append(Started(tmp_path / f"{len(made)}.log", "drain", *words, **env))
            return made[-1]

        yield start


@pytest.fixture
def filed(board: Board) -> Callable[..., Task]:
    anna = cast.chain_of(cast.make_member(board.space))
    return lambda assignee="writer", **fields: cast.filed(board, anna, assignee=assignee, **fields)


def lines(task: Task) -> list[str]:
    return list(TranscriptItem.objects.filter(task=task.pk).order_by("pk").values_list("text", flat=True))


def completed(task: Task) -> Task:
    until(lambda: cast.fresh(task).status == Status.COMPLETED, 60, f"completed: {task.public_id}")
    return cast.fresh(task)


def test_a_task_whose_drain_is_killed_is_done_by_the_next_claim_and_the_log_says_so(
    drain: Callable[..., Started], filed: Callable[..., Task], client: Client
) -> None:
    task = filed(max_attempts=3)
    first = drain().until_ready()
    until(lambda: "begun" in lines(task))
    first.kill()
    drain()
    row = completed(task)
    assert row.output == {"attempt": 2}
    assert (row.attempts, row.abandonments, row.failures) == (2, 1, 0)
    assert list(Attempt.objects.filter(task=task.pk).values_list("number", "ending")) == [
        (1, "lost"),
        (2, "completed"),
    ]
    again = Event.objects.get(task=task.pk, kind="task.claimed", attempt=2)
    assert (again.cause, again.data["lost_attempt"]) == ("lost worker", 1)
    assert any(line.startswith("Attempt 2 started") for line in lines(task))
    client.force_login(User.objects.get(username="anna"), "django.contrib.auth.backends.ModelBackend")
    page = client.get(f"/b/{task.board.slug}/t/{task.public_id}/").content.decode()
    assert "took it over as attempt 2, since the worker before was lost" in page
    assert "Lost its worker" in page or "lost its worker" in page


def test_programs_of_a_killed_drain_die_with_it(drain: Callable[..., Started], filed: Callable[..., Task]) -> None:
    task = filed("shell")
    first = drain().until_ready()
    line = until(lambda: next((text for text in lines(task) if text[:1].isdigit()), ""))
    pids = [int(word) for word in line.split()]
    assert all(map(lives, pids))
    first.kill()
    until(lambda: not any(map(lives, pids)))
    drain()
    assert completed(task).output == {"attempt": 2}


def test_a_drain_that_is_told_to_end_hands_its_work_back_and_nothing_is_spent(
    drain: Callable[..., Started], filed: Callable[..., Task]
) -> None:
    tasks = [filed("writer"), filed("shell"), filed("deaf")]
    one = drain("--grace", "0.2").until_ready()
    until(lambda: all(len(lines(task)) > 1 for task in tasks))
    one.terminate()
    assert one.ends() == 0, one.said  # the worker that never listens goes on for an hour
    for row in map(cast.fresh, tasks):
        assert (row.status, row.failures, row.abandonments, row.lease_until) == (Status.PENDING, 0, 0, None)
        assert row.attempt_rows.get().ending == Attempt.Ending.HANDED_BACK
        assert Event.objects.filter(task=row.pk, kind="task.handed_back").count() == 1
    pids = [int(word) for word in lines(tasks[1])[1].split()]
    assert not any(map(lives, pids))
    assert Process.objects.get().stopped_at is not None
    assert "drain ended: stopped." in one.said


def test_two_interrupts_end_it_at_once(drain: Callable[..., Started], filed: Callable[..., Task]) -> None:
    task = filed()
    one = drain("--grace", "3600").until_ready()
    until(lambda: "begun" in lines(task))
    os.kill(one.process.pid, signal.SIGINT)
    until(lambda: "stopping within 3600 s" in one.said)
    os.kill(one.process.pid, signal.SIGINT)
    assert one.ends() == 0
    assert cast.fresh(task).status == Status.PENDING


def test_a_pass_ends_when_the_board_is_idle(drain: Callable[..., Started], filed: Callable[..., Task]) -> None:
    tasks = [filed("reader", input={"n": n}) for n in range(3)]
    one = drain("--until-idle")
    assert one.ends() == 0
    assert [cast.fresh(task).output for task in tasks] == [0, 1, 2]
    assert "drain ended: all-completed. 3 tasks: 3 Done" in one.said


def test_a_drain_outlives_a_database_that_is_away(
    board: Board, drain: Callable[..., Started], filed: Callable[..., Task]
) -> None:
    Board.objects.filter(pk=board.pk).update(lease_ms=60_000)
    task, later = filed("reader", input={"n": 30}), filed("reader", goal="later", input={"n": 1})
    one = drain("--concurrency", "1").until_ready()
    until(lambda: cast.fresh(task).status_note)
    name = connection.settings_dict["NAME"]
    connection.close()
    with psycopg.connect(database_url(), dbname="postgres", autocommit=True) as admin:
        admin.execute(f'alter database "{name}" with allow_connections false')
        try:
            admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            until(lambda: "The database is away" in one.said)
            spent = cpu_seconds(one.process.pid)
            away_since = time.monotonic()
            until(lambda: time.monotonic() - away_since > 2)
            assert cpu_seconds(one.process.pid) - spent < 1, "it does not spin"
        finally:
            admin.execute(f'alter database "{name}" with allow_connections true')
    assert completed(task).output == 30
    assert completed(later).output == 1
    assert (cast.fresh(task).attempts, one.process.poll()) == (1, None)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_of_two_drains_one_is_killed_and_everything_is_done_once(
    drain: Callable[..., Started], filed: Callable[..., Task]
) -> None:
    filed_tasks = [filed("reader", goal=f"count {n}", input={"n": 3}) for n in range(40)]
    first, second = drain("--concurrency", "4"), drain("--concurrency", "4")
    done = Task.objects.filter(status=Status.COMPLETED)
    until(lambda: done.count() > 5, 60)
    first.kill()
    until(lambda: done.count() == len(filed_tasks), 60)
    assert second.process.poll() is None
    assert Task.objects.filter(output=3, abandonments__lte=1).count() == len(filed_tasks)
    lost = Task.objects.filter(abandonments=1).count()
    assert lost <= 2 * 4  # what took its slots, and as many that had returned and were still to be written
    assert Attempt.objects.count() == len(filed_tasks) + lost
    assert Event.objects.filter(kind="task.completed").count() == len(filed_tasks)


def test_a_sweeper_watches_deadlines_until_it_is_told_to_end(
    board: Board, filed: Callable[..., Task], tmp_path: Path
) -> None:
    task = filed()
    claimed = cast.claimed(board)
    with several() as made:
        made.append(Started(tmp_path / "sweeper.log", "sweeper"))
        sweeper = made[0].until_ready()
        due = {"kind": "approval", "prompt": "Publish?", "due_in_ms": 300}
        hold = people.open_hold(cast.agent_chain(board), claim=claimed.ticket, **due)
        until(lambda: Hold.objects.filter(pk=hold.pk, state="expired").exists())
        assert Process.objects.filter(kind="sweeper", stopped_at=None).count() == 1
        sweeper.terminate()
        assert sweeper.ends() == 0, sweeper.said
        assert "sweeper ended." in sweeper.said
    assert Process.objects.get().stopped_at is not None
    assert Event.objects.filter(task=task.pk, kind="hold.expired").count() == 1

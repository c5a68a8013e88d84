"""A due time that passes while processes are killed: withdrawn once, cleaned up once, failed once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import F
from django.db.models.functions import Now

from boards import people, sweeping, tasks
from boards.models import Attempt, Debt, Event, FlowRun, Hold, RosterEntry, Task, TranscriptItem, Visit
from tests import cast
from tests.crash.processes import ROOT, Started, database_url, several
from tests.flows.cast import Stage, place, step_task
from tests.waiting import lives, until
from tests.workers.drains import program_entry

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

CHAIN = ["lend_end", "session_stop", "holds_discard", "flow_failure_steps"]
MOMENTS = [(kind, point) for kind in ["withdraw", *CHAIN] for point in ("before", "inside", "after")]

TIMED = """
key: timed
name: Timed
steps:
  - key: write
    name: Write
    kind: agent
    assignee: NAME
    prompt: Write.
    timeout_ms: 2000
    on_failure:
      steps: [{key: clean, name: Clean up, kind: task, assignee: janitor, prompt: Clean up.}]
  - {key: done, name: Done}
"""

# Hears SIGTERM and goes on; its child stands in a session of its own.
DEAF = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(3600)"],
                         start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(3600)
"""


@pytest.fixture
def stage() -> Stage:
    """With a janitor, whom no drain serves: what the failure steps file stays where it is."""
    made = Stage()
    RosterEntry.objects.create(board=made.board, name="janitor", kind="pull", position=9)
    return made


def asked(stage: Stage, task: Task) -> None:
    """The working attempt has asked for an approval, and for a yes to a draft that would go out."""
    ticket = tasks.mint(task, Attempt.objects.get(task=task, ended_at=None).pk)
    agent = cast.agent_chain(stage.board, task.assignee)
    people.open_hold(agent, claim=ticket, kind="approval", prompt="Is it right?")
    people.open_hold(agent, claim=ticket, kind="gate", prompt="Send it?", draft={"to": "everybody"})


def withdrawn_once(run: FlowRun) -> None:
    """Everything happened, each thing once."""
    due_at = Visit.objects.get(run=run).due_at
    assert due_at is not None
    task = step_task(run)
    assert task.withdrawn
    assert Event.objects.get(task=task, kind="task.withdrawn").data["due_at"] == due_at.isoformat()
    assert Attempt.objects.get(task=task).lend_ended_at is not None
    assert {(hold.kind, hold.state, hold.closed_reason) for hold in Hold.objects.all()} == {
        ("approval", "discarded", "The due time passed."),
        ("gate", "discarded", "The due time passed."),
    }
    assert Event.objects.filter(kind="hold.discarded").count() == 2
    failed = Event.objects.get(run=run, kind="step.failed")
    assert (failed.cause, failed.data["text"]) == (
        "timeout",
        "The due time of Write passed, so its task was withdrawn.",
    )
    assert Task.objects.filter(assignee="janitor").count() == 1, "the failure steps run once"
    assert not Debt.objects.exists()
    cleaned = cast.claimed(task.board, "janitor")
    tasks.complete(cast.agent_chain(task.board, "janitor"), cleaned.task, None, claim=cleaned.ticket)
    assert place(run) == "write failed"
    assert Event.objects.filter(run=run, kind="step.failed").count() == 1


def has_failed(run: FlowRun) -> bool:
    return Event.objects.filter(run=run, kind="step.failed").exists()


@pytest.mark.parametrize(("kind", "point"), MOMENTS)
def test_killed_at_any_commit_point_it_goes_on_where_it_broke(kind: str, point: str, stage: Stage) -> None:
    run = stage.started(TIMED.replace("NAME", "writer"))
    stage.claim()
    asked(stage, step_task(run))
    Visit.objects.update(due_at=Now() - timedelta(seconds=1))
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.late", kind, point],
        env={**os.environ, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "orchestra.settings"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    begun = kind != "withdraw" or point == "after"
    assert bool(step_task(run).withdrawn) is begun
    assert has_failed(run) is ((kind, point) == ("flow_failure_steps", "after"))
    for _ in range(3):
        Debt.objects.filter(kind="session_stop", after=None).update(created_at=F("created_at") - timedelta(hours=1))
        sweeping.sweep_once()  # the drain that claimed is silent and its lease is over: that pays the stop
    withdrawn_once(run)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[list[Started]]:
    with several() as made:
        yield made


def test_a_worker_that_ignores_sigterm_is_gone_when_its_step_fails(
    stage: Stage, processes: list[Started], tmp_path: Path
) -> None:
    program_entry(stage.board, DEAF)
    processes.append(Started(tmp_path / "drain.log", "drain", "--grace", "0.5").until_ready())
    processes.append(Started(tmp_path / "sweeper.log", "sweeper").until_ready())
    run = stage.started(TIMED.replace("NAME", "shell"))
    Visit.objects.update(due_at=Now() + timedelta(seconds=60))
    line = until(lambda: printed(step_task(run)), what="the worker began")
    pids = [int(word) for word in line.split()]
    asked(stage, step_task(run))
    Visit.objects.update(due_at=Now() + timedelta(seconds=2))
    due_at = Visit.objects.get(run=run).due_at
    until(lambda: has_failed(run), 60, "the step failed")
    assert not any(map(lives, pids))
    withdrawn = step_task(run).completed_at
    assert withdrawn is not None
    assert due_at is not None
    assert timedelta() <= withdrawn - due_at < timedelta(seconds=2), "on time"
    until(lambda: not Debt.objects.exists())
    withdrawn_once(run)
    assert Event.objects.get(kind="step.failed").at > withdrawn


def printed(task: Task) -> str:
    lines = TranscriptItem.objects.filter(task=task).order_by("pk").values_list("text", flat=True)
    return next((text for text in lines if text[:1].isdigit()), "")

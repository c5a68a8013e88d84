"""A process that is killed between an ending and what it owes: one pass of the sweeper pays it, once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import sweeping, tasks
from boards.models import Debt, Event, FlowOperation, Hold, Task
from tests import cast
from tests.crash.processes import ROOT, database_url
from tests.flows.cast import Stage, place

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

POINTS = ["before", "inside"]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def killed(verb: str, task: Task, kind: str, point: str) -> None:
    """End the task in a process that is killed at the point; the ending stands and the debt is owed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.ender", verb, str(task.pk), kind, point],
        env={**os.environ, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "orchestra.settings"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert cast.fresh(task).is_ended
    assert Debt.objects.filter(kind=kind, state="owed").count() == 1


def sweep() -> int:
    paid = sweeping.sweep_once().done["debts paid"]
    assert sweeping.sweep_once().total == 0, "a second pass finds nothing"
    assert not Debt.objects.exists()
    return paid


@pytest.mark.parametrize("point", POINTS)
def test_a_cascade_is_paid_once_all_the_way(point: str, stage: Stage) -> None:
    first = cast.filed(stage.board, stage.anna, "First")
    second = cast.filed(stage.board, stage.anna, "Second", deps=[first.public_id])
    third = cast.filed(stage.board, stage.anna, "Third", deps=[second.public_id])
    killed("cancel", first, "cascade", point)
    assert cast.fresh(second).status == "pending"
    sweep()
    assert {cast.fresh(task).status for task in (second, third)} == {"cancelled"}
    assert Event.objects.filter(kind="task.cancelled").count() == 3


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("verb", ["cancel", "withdraw"])
def test_what_a_task_filed_is_cancelled_once(verb: str, point: str, stage: Stage) -> None:
    parent = cast.filed(stage.board, stage.anna, "Parent")
    child = tasks.file_task(cast.agent_chain(stage.board), stage.board, goal="Child", filed_by_task=parent)
    killed(verb, parent, "children_cancel", point)
    assert cast.fresh(child).status == "pending"
    assert sweep() == 1
    assert Event.objects.filter(task=child, kind="task.cancelled").count() == 1


@pytest.mark.parametrize("point", POINTS)
def test_a_run_moves_on_once(point: str, stage: Stage) -> None:
    run = stage.started()
    got = stage.claim()
    killed("complete", got.task, "flow_advance", point)
    assert place(run) == "write active"
    assert FlowOperation.objects.filter(run=run, trigger="task_ended").count() == 0
    assert sweep() == 1
    assert place(run) == "approve active"
    assert Hold.objects.count() == 1


def test_a_stop_is_owed_until_its_worker_is_gone(stage: Stage) -> None:
    task = cast.filed(stage.board, stage.anna)
    cast.claimed(stage.board)
    killed("cancel", task, "session_stop", "before")
    sweeping.sweep_once()
    assert Debt.objects.get().kind == "session_stop", "the lease of the dead drain still runs"
    Debt.objects.update(created_at=Now() - timedelta(milliseconds=stage.board.lease_ms))
    assert sweeping.sweep_once().done["stops of dead drains paid"] == 1
    assert sweeping.sweep_once().total == 0
    assert not Debt.objects.exists()


@pytest.mark.parametrize("point", POINTS)
def test_a_task_that_waits_for_what_it_filed_ends_once(point: str, stage: Stage) -> None:
    parent = cast.filed(stage.board, stage.anna, "Parent")
    claimed, worker = cast.claimed(stage.board), cast.agent_chain(stage.board)
    child = tasks.file_task(worker, stage.board, goal="Child", assignee="reader", filed_by_task=parent)
    assert tasks.complete(worker, parent, {"n": 1}, claim=claimed.ticket).status == "in_progress"
    cast.claimed(stage.board, "reader")
    killed("complete", child, "settle_parent", point)
    assert cast.fresh(parent).kept_open_by == "filed"
    sweep()
    row = cast.fresh(parent)
    assert (row.status, row.kept_open_by, row.output) == ("completed", "", {"n": 1})
    assert Event.objects.filter(task=parent, kind="task.completed").count() == 1

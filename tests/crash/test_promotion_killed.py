"""A process that is killed between a leave and the promotion that it owes: one pass of the sweeper lets the next in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from boards import flows, sweeping
from boards.models import Debt, Event, FlowRun, FlowVersion, StepChange, Task
from tests.crash.processes import ROOT, database_url
from tests.flows.cast import Stage, fresh, place, settle
from tests.flows.wip_cast import queued, standing

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

TEXT = """
key: line
name: Line
style: board
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go., wip_limit: 1}
  - {key: review, name: Review}
  - {key: done, name: Done}
"""


@pytest.fixture
def runs() -> list[FlowRun]:
    stage = Stage()
    flow = stage.flow(TEXT)
    made = [flows.start(stage.anna, flow, {}, name) for name in ("First", "Second", "Third")]
    settle()
    return [fresh(run) for run in made]


def killed(verb: str, run: FlowRun, point: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.leaver", verb, str(run.pk), point],
        env={**os.environ, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "orchestra.settings"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert Debt.objects.filter(kind="run_promote", state="owed").exists(), "the leave stands, and what it owes"


@pytest.mark.parametrize("point", ["before", "inside"])
@pytest.mark.parametrize("verb", ["move", "archive", "cancel"])
def test_the_next_one_is_let_in_once(verb: str, point: str, runs: list[FlowRun]) -> None:
    first, second, _ = runs
    killed(verb, first, point)
    assert (standing(first, "write"), queued(first, "write")) == ([], ["Second", "Third"])
    sweeping.sweep_once()
    assert (standing(first, "write"), queued(first, "write")) == (["Second"], ["Third"])
    sweeping.sweep_once()
    assert Task.objects.filter(visit__run=second).count() == 1, "what was put off is started once"
    assert StepChange.objects.filter(run=second, trigger="queue_promotion").count() == 1
    assert Event.objects.filter(run=second, kind="step.entered").count() == 1
    assert not Debt.objects.filter(kind="run_promote").exists()


def test_where_several_places_are_free_the_rest_is_let_in_too(runs: list[FlowRun]) -> None:
    first, second, third = runs
    # As after a limit that was raised by a process that died before it could pay for that.
    version = first.flow.versions.get()
    raised = FlowVersion.objects.create(flow=first.flow, number=2, settings=version.settings)
    for step in version.steps.order_by("position"):
        step.pk, step.version = None, raised
        step.settings |= {"wip_limit": 2} if step.key == "write" else {}
        step.save(force_insert=True)
    killed("archive", first, "between")
    assert (place(second), queued(first, "write")) == ("write active", ["Third"])
    sweeping.sweep_once()
    assert place(third) == "write active"
    assert StepChange.objects.filter(trigger="queue_promotion").count() == 2

"""A step whose task filed others is worked until those have ended (spec: 03 section 4.5, 05 sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import flows, tasks
from boards.models import Debt, FlowRun, Task, Visit
from boards.states import Phase
from boards.tasks.current import working_under
from tests import cast
from tests.flows.cast import Stage, fresh, place, settle, step_task
from tests.flows.test_due_times import TIMED

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def kept(stage: Stage, run: FlowRun) -> tuple[Task, Task]:
    """The step's task was handed in and waits for one that it filed."""
    got, worker = stage.claim(), cast.agent_chain(stage.board)
    filed = tasks.file_task(worker, stage.board, goal="Part", assignee="reader", filed_by_task=got.task)
    assert tasks.complete(worker, got.task, {"text": "Words"}, claim=got.ticket).status == "in_progress"
    settle()
    assert got.task.pk == step_task(run).pk
    return got.task, filed


def test_the_run_goes_on_when_what_the_turn_filed_has_ended(stage: Stage) -> None:
    run = stage.started()
    kept(stage, run)
    assert place(run) == "write active"
    stage.complete("reader")
    assert place(run) == "approve active"
    assert not Debt.objects.exists()


def test_a_cancelled_turn_has_no_worker_to_wait_for(stage: Stage) -> None:
    run = stage.started()
    task, filed = kept(stage, run)
    assert flows.cancel_turn(stage.anna, fresh(run)).landed
    settle()
    assert {cast.fresh(one).status for one in (task, filed)} == {"cancelled"}
    assert fresh(run).current_visit.phase == Phase.PAUSED
    assert not Debt.objects.exists()


def test_a_cancelled_run_ends_the_task_and_what_it_filed(stage: Stage) -> None:
    run = stage.started()
    task, filed = kept(stage, run)
    flows.cancel_run(stage.anna, fresh(run))
    settle()
    assert {cast.fresh(one).status for one in (task, filed)} == {"cancelled"}
    assert place(run).endswith("cancelled")
    assert not Debt.objects.exists()


def test_its_due_time_withdraws_it_and_ends_what_it_filed(stage: Stage) -> None:
    run = stage.started(TIMED)
    task, filed = kept(stage, run)
    Visit.objects.filter(pk=fresh(run).current_visit_id).update(due_at=Now() - timedelta(seconds=1))
    assert flows.withdraw_due() == 1
    settle()
    row = cast.fresh(task)
    assert (row.status, row.kept_open_by, bool(row.withdrawn)) == ("cancelled", "", True)
    assert cast.fresh(filed).status == "cancelled"
    assert not Debt.objects.exists()


def test_a_flow_started_in_a_lost_turn_files_its_own_tasks_all_the_same(
    stage: Stage, lapse: Callable[[Task], None]
) -> None:
    """Neither a step's task nor one beside the run is of the turn in whose thread the run was started."""
    cast.filed(stage.board, stage.anna)
    lost = stage.claim()
    lapse(lost.task)
    text = """
    key: tells
    name: Tells
    steps:
      - key: read
        name: Read
        kind: agent
        assignee: reader
        prompt: Read.
        events: {on_enter: [{type: create_task, goal: Go, title: Tell, assignee: reader}]}
    """
    with working_under(lost.ticket):
        run = stage.started(text)
        settle()
    assert place(run) == "read active"
    made = Task.objects.exclude(pk=lost.task.pk)
    assert {(row.visit_id is None, row.filed_by_task_id) for row in made} == {(True, None), (False, None)}

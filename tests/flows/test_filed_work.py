"""A step whose task filed others is worked until those have ended (spec: 03 section 4.5, 05 sections 3 and 4)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import flows, tasks
from boards.models import Debt, FlowRun, Task, Visit
from boards.states import Phase
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

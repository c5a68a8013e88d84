"""A `stage` files its tasks with what depends on what; the required ones decide (spec: 05 sections 1, 4.5)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import flows, tasks
from boards.models import Branch, Event, Task, Visit
from boards.states import Phase
from tests import cast
from tests.flows.cast import Stage, fresh, history, place, settle
from tests.flows.kinds_cast import open_task, outcomes, output, started, withdraw, work

pytestmark = pytest.mark.django_db

STEPS = """
- key: build
  name: Build
  kind: stage
  assignee: writer
  tasks:
    - {key: plan, goal: "Plan {{ input.what }}", title: Plan}
    - {key: code, goal: Code it, title: Code, deps: [plan], timeout_ms: 60000}
    - {key: docs, goal: Describe it, title: Docs, assignee: reader, required: false}
- {key: ship, kind: agent, assignee: writer, prompt: "Ship {{ steps.build.output.code.output.text }}."}
"""


def test_its_tasks_stand_on_the_flows_board_with_their_dependencies(stage: Stage) -> None:
    run = started(stage, STEPS, {"what": "a boat"})
    plan, code, docs = Task.objects.order_by("pk")
    assert (plan.goal, plan.board_id, plan.stage, plan.required) == ("Plan a boat", stage.board.pk, "build", True)
    assert (code.unmet_deps, docs.required, docs.assignee) == (1, False, "reader")
    assert [task.visit_id for task in (plan, code, docs)] == [fresh(run).current_visit_id] * 3
    assert Branch.objects.get(key="code").due_at is not None
    assert outcomes(run) == {"plan": "open", "code": "open", "docs": "open"}


def test_it_is_over_when_the_required_ones_completed_and_no_other_is_open(stage: Stage) -> None:
    run = started(stage, STEPS, {"what": "a boat"})
    work(stage, "Plan")
    work(stage, "Code", {"text": "code"})
    assert place(run) == "build active", "one that is not required is still open"
    work(stage, "Docs", fails="No words.", who=cast.READER)
    assert place(run) == "ship active"
    assert output(run, "build") == {
        "plan": {"status": "completed", "output": {"text": "Plan"}},
        "code": {"status": "completed", "output": {"text": "code"}},
        "docs": {"status": "failed", "output": None},
    }
    assert open_task("Ship").goal == "Ship code."
    assert history(run)[-1] == "build > ship (children_completed, Kinds)"


def test_a_required_one_that_fails_fails_the_step_and_ends_the_others(stage: Stage) -> None:
    run = started(stage, STEPS, {"what": "a boat"})
    work(stage, "Plan", fails="No idea.")
    assert place(run) == "build failed"
    assert fresh(run).error == f"“Plan: {run.name}”, which the stage requires, failed: No idea."
    assert set(Task.objects.values_list("status", flat=True)) == {"errored", "cancelled"}


def test_a_required_one_that_is_cancelled_fails_the_step(stage: Stage) -> None:
    run = started(stage, STEPS, {"what": "a boat"})
    tasks.cancel(stage.anna, open_task("Plan"), "Not needed.")
    settle()
    assert place(run) == "build failed"
    assert "was cancelled: Not needed." in fresh(run).error


def test_a_required_one_that_is_withdrawn_stays_required_and_the_stage_says_so(stage: Stage) -> None:
    run = started(stage, STEPS, {"what": "a boat"})
    withdraw(stage, "Plan")
    visit = fresh(run).current_visit
    assert visit is not None
    assert (place(run), visit.phase) == ("build active", Phase.WAITING)
    assert visit.error == "The due time of “plan” passed, and the stage requires it. What depends on it keeps waiting."
    assert open_task("Code").unmet_deps == 1, "what depends on it keeps waiting"
    work(stage, "Docs", who=cast.READER)
    assert place(run) == "build active"
    assert Event.objects.filter(run=run, kind="step.waiting").count() == 1


def test_one_that_is_not_required_may_be_withdrawn(stage: Stage) -> None:
    run = started(stage, STEPS, {"what": "a boat"})
    withdraw(stage, "Docs")
    work(stage, "Plan")
    work(stage, "Code", {"text": "code"})
    assert place(run) == "ship active"
    assert output(run, "build")["docs"] == {"status": "withdrawn", "output": None}


def test_a_failed_required_one_that_is_retried_and_completes_lets_the_run_go_on(stage: Stage) -> None:
    steps = """
    - key: build
      kind: stage
      assignee: writer
      tasks: [{key: plan, goal: Plan it, title: Plan}]
    - {key: ship, kind: agent, assignee: writer, prompt: Ship.}
    """
    run = started(stage, steps)
    failed = work(stage, "Plan", fails="No idea.")
    assert place(run) == "build failed"
    tasks.retry(stage.anna, failed)
    work(stage, "Plan")
    assert place(run) == "ship active"


def test_run_again_files_its_tasks_anew(stage: Stage) -> None:
    run = started(stage, STEPS, {"what": "a boat"})
    work(stage, "Plan", fails="No idea.")
    flows.run_again(stage.anna, fresh(run))
    settle()
    assert place(run) == "build active"
    assert Task.objects.filter(status="pending").count() == 3
    assert Task.objects.count() == 6


def test_dependencies_that_form_a_loop_fail_the_step_in_words(stage: Stage) -> None:
    run = started(stage, STEPS.replace("title: Plan}", "title: Plan, deps: [code]}"), {"what": "a boat"})
    assert place(run) == "build failed"
    assert "form a loop" in fresh(run).error
    assert not Task.objects.exists()


def test_a_due_time_of_the_whole_stage_fails_it(stage: Stage) -> None:
    steps = STEPS.replace("kind: stage", "kind: stage\n  timeout_ms: 60000")
    run = started(stage, steps, {"what": "a boat"})
    visit = fresh(run).current_visit
    assert visit is not None
    assert visit.due_at is not None
    assert (visit.due_at - visit.entered_at).total_seconds() == pytest.approx(60, abs=1)
    Visit.objects.update(due_at=Now() - timedelta(seconds=1))
    withdraw(stage, "Plan")
    assert (place(run), fresh(run).error) == (
        "build failed",
        "The due time of Build passed, so what it still had at work was withdrawn.",
    )
    assert set(Task.objects.values_list("status", flat=True)) == {"cancelled"}


def test_a_cancel_of_the_whole_turn_pauses_the_stage(stage: Stage) -> None:
    run = started(stage, STEPS, {"what": "a boat"})
    for title in ("Plan", "Code", "Docs"):
        tasks.cancel(stage.anna, open_task(title), "Stop.", cause="user_cancel")
        settle()
    visit = fresh(run).current_visit
    assert visit is not None
    assert (place(run), visit.phase) == ("build active", Phase.PAUSED)

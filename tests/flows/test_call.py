"""A `call` runs another flow and waits for its end; what is cancelled above ends below (spec: 05 section 1)."""

from __future__ import annotations

import pytest

from boards import flows
from boards.flows.steps.calling import MAX_DEPTH
from boards.models import Event, FlowRun, Task
from tests.flows.cast import Stage, fresh, history, place, settle
from tests.flows.kinds_cast import define, open_task, output, started, work

pytestmark = pytest.mark.django_db

CHILD = """
- key: write
  name: Child writes
  kind: agent
  assignee: writer
  prompt: "Write {{ input.count }} of {{ input.topic }}."
  events: {on_turn_complete: [{type: set_data, data: {words: "{{ output.text }}"}}, move_to_next]}
"""
SCHEMA = {"properties": {"topic": {"type": "string"}, "count": {"type": "integer"}}, "required": ["topic"]}
PARENT = """
- {key: part, name: Part, kind: call, flow: child, inputs: {topic: "{{ input.about }}", count: "{{ 1 + 2 }}"}}
- {key: ship, kind: agent, assignee: writer, prompt: "Ship {{ steps.part.output.data.words }}."}
"""


def begun(stage: Stage) -> tuple[FlowRun, FlowRun]:
    define(stage, CHILD, key="child", inputs=SCHEMA)
    run = started(stage, PARENT, {"about": "boats"})
    return run, FlowRun.objects.exclude(pk=run.pk).get()


def test_the_child_runs_with_its_inputs_and_its_caller(stage: Stage) -> None:
    run, child = begun(stage)
    assert place(run) == "part active"
    assert (child.called_by_id, child.inputs) == (fresh(run).current_visit_id, {"topic": "boats", "count": 3})
    assert (child.started_by_name, child.name) == (run.started_by_name, f"{run.name}, Part")
    assert open_task("Child writes").goal == "Write 3 of boats."


def test_its_end_moves_the_caller_on_with_its_data_and_outputs(stage: Stage) -> None:
    run, child = begun(stage)
    work(stage, "Child writes", {"text": "three boats"})
    assert fresh(child).status == "completed"
    assert place(run) == "ship active"
    assert output(run, "part") == {
        "run": child.number,
        "data": {"words": "three boats"},
        "steps": {"write": {"text": "three boats"}},
    }
    assert open_task("Ship").goal == "Ship three boats."
    assert history(run)[-1] == f"part > ship (children_completed, {child.name})"


def test_a_child_that_fails_fails_the_step_and_one_that_is_run_again_lets_it_go_on(stage: Stage) -> None:
    run, child = begun(stage)
    work(stage, "Child writes", fails="No ink.")
    assert place(run) == "part failed"
    assert fresh(run).error == f"The run “{child.name}” that it called failed: No ink."
    flows.run_again(stage.anna, fresh(child))
    work(stage, "Child writes")
    assert place(run) == "ship active"


def test_a_child_that_is_cancelled_fails_the_step(stage: Stage) -> None:
    run, child = begun(stage)
    flows.cancel_run(stage.anna, fresh(child), "Not now.")
    settle()
    assert place(run) == "part failed"
    assert "that it called was cancelled: Anna cancelled the run: Not now." in fresh(run).error


def test_a_cancel_of_the_caller_cancels_the_child(stage: Stage) -> None:
    run, child = begun(stage)
    flows.cancel_run(stage.anna, fresh(run))
    settle()
    assert (fresh(run).status, fresh(child).status) == ("cancelled", "cancelled")
    assert Task.objects.get().status == "cancelled"
    assert Event.objects.filter(kind="run.cancelled").count() == 2


def test_a_move_away_from_the_call_cancels_the_child(stage: Stage) -> None:
    run, child = begun(stage)
    with pytest.raises(flows.IllegalRunMove, match="It waits for the run"):
        flows.move(stage.anna, fresh(run), "ship")
    flows.move(stage.anna, fresh(run), "ship", cancel_turn=True)
    settle()
    assert place(run).startswith("ship")
    assert fresh(child).status == "cancelled"


def test_the_step_is_not_marked_complete_over_a_child_that_runs(stage: Stage) -> None:
    run, _ = begun(stage)
    with pytest.raises(flows.IllegalRunMove, match="It waits for the run"):
        flows.mark_complete(stage.anna, fresh(run))


def test_inputs_that_do_not_fit_fail_the_step_in_words(stage: Stage) -> None:
    define(stage, CHILD, key="child", inputs=SCHEMA)
    run = started(stage, PARENT.replace("1 + 2", "'many'"), {"about": "boats"})
    assert place(run) == "part failed"
    assert "count: 'many' is not of type 'integer'" in fresh(run).error
    assert FlowRun.objects.count() == 1


def test_a_flow_that_is_not_there_fails_the_step(stage: Stage) -> None:
    run = started(stage, PARENT, {"about": "boats"})
    assert fresh(run).error == "The step Part calls the flow “child”, which is not in this space."


def test_flows_that_call_themselves_stop_at_the_limit(stage: Stage) -> None:
    run = started(stage, "- {key: again, kind: call, flow: kinds}")
    assert FlowRun.objects.count() == MAX_DEPTH
    assert set(FlowRun.objects.values_list("status", flat=True)) == {"failed"}
    assert f"{MAX_DEPTH} deep" in fresh(run).error


def test_a_child_of_a_child_ends_with_the_first_of_them(stage: Stage) -> None:
    define(stage, CHILD.replace("{{ input.count }} of {{ input.topic }}", "it"), key="child")
    define(stage, "- {key: middle, kind: call, flow: child}", key="middle")
    run = started(stage, "- {key: top, kind: call, flow: middle}")
    assert FlowRun.objects.filter(status="active").count() == 3
    flows.cancel_run(stage.anna, fresh(run))
    settle()
    assert FlowRun.objects.filter(status="cancelled").count() == 3

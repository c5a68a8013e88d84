"""A `loop` works towards a goal: seed, judge, perhaps plan anew, again, finalize (spec: 03 section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from boards import flows, tasks
from boards.flows import goals
from boards.flows.goals import GoalState
from boards.models import Branch, FlowRun, Task
from tests.flows.cast import Stage, fresh, place, settle
from tests.flows.kinds_cast import events, open_task, output, started, work

pytestmark = pytest.mark.django_db

SEEN: list[GoalState] = []
SAYS: dict[str, Callable[[GoalState], Any]] = {}


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    """A judge, a replanner and a finalizer that say what the test wants."""
    before = dict(goals.GOALS)
    SEEN.clear()
    SAYS.clear()

    def saying(name: str) -> Callable[[GoalState], Any]:
        def function(state: GoalState) -> Any:
            SEEN.append(state)
            return SAYS[name](state)

        return function

    for name in ("judge", "plan", "finish"):
        goals.GOALS[name] = saying(name)
    yield
    goals.GOALS.clear()
    goals.GOALS.update(before)


STEPS = """
- key: seek
  name: Seek
  kind: loop
  assignee: writer
  judge: judge
  replanner: plan
  max_iterations: 3
  tasks: [{key: try, goal: "Try {{ input.what }}", title: Try}]
- {key: ship, kind: agent, assignee: writer, prompt: Ship.}
"""


def begun(stage: Stage, steps: str = STEPS) -> FlowRun:
    return started(stage, steps, {"what": "it"})


def termination(run: FlowRun) -> dict[str, Any]:
    (event,) = events(run, "step.loop_ended")
    return {name: event.data[name] for name in ("entry", "reason", "iterations")}


def test_done_completes_the_step(stage: Stage) -> None:
    SAYS["judge"] = lambda state: {"decision": "done", "reason": "Good."}
    run = begun(stage)
    assert open_task("Try").goal == "Try it"
    assert not SEEN, "nothing is judged before the work is over"
    work(stage, "Try", {"text": "result"})
    assert place(run) == "ship active"
    (state,) = SEEN
    assert (state.iteration, state.max_iterations, state.inputs) == (1, 3, {"what": "it"})
    assert state.tasks == [
        {"key": "try", "iteration": 1, "status": "completed", "output": {"text": "result"}, "error": ""}
    ]
    told = output(run, "seek")
    assert (told["reason"], told["iterations"], told["said"]) == ("done", 1, "Good.")
    assert termination(run) == {"entry": "goal-seek-loop-termination", "reason": "done", "iterations": 1}


def test_replan_files_what_the_replanner_names_with_its_dependencies(stage: Stage) -> None:
    SAYS["judge"] = lambda state: {"decision": "replan" if state.iteration == 1 else "done", "reason": "More."}
    SAYS["plan"] = lambda state: [
        {"key": "a", "goal": "First {{ this is text }}", "title": "First"},
        {"key": "b", "goal": "Second", "title": "Second", "deps": ["a"]},
    ]
    run = begun(stage)
    work(stage, "Try", fails="Not yet.")
    assert (open_task("First").goal, open_task("Second").unmet_deps) == ("First {{ this is text }}", 1)
    assert SEEN[1].verdict["reason"] == "More."
    work(stage, "First")
    work(stage, "Second")
    assert place(run) == "ship active"
    assert list(Branch.objects.order_by("pk").values_list("round", "key")) == [(1, "try"), (2, "a"), (2, "b")]
    assert termination(run)["iterations"] == 2


def test_a_judge_may_name_the_tasks_itself(stage: Stage) -> None:
    SAYS["judge"] = lambda state: {"decision": "continue" if state.iteration == 1 else "done", "tasks": ["Once more"]}
    run = begun(stage)
    work(stage, "Try")
    assert Task.objects.get(status="pending").goal == "Once more"
    work(stage, "Seek")
    assert place(run) == "ship active"


def test_the_bound_ends_it_and_the_step_is_complete(stage: Stage) -> None:
    SAYS["judge"] = lambda state: {"decision": "continue", "reason": "Not good yet."}
    run = begun(stage)
    work(stage, "Try")
    assert place(run) == "ship active"
    assert [state.iteration for state in SEEN] == [1, 2, 3]
    assert termination(run) == {"entry": "goal-seek-loop-termination", "reason": "max-iterations", "iterations": 3}
    assert output(run, "seek")["said"] == "Not good yet."


@pytest.mark.parametrize(("decision", "reason"), [("done", "done"), ("continue", "max-iterations")])
def test_finalize_runs_however_it_ended_well(stage: Stage, decision: str, reason: str) -> None:
    SAYS["judge"] = lambda state: {"decision": decision}
    SAYS["finish"] = lambda state: {"sum": len(state.tasks), "because": state.reason}
    run = begun(stage, STEPS.replace("replanner: plan", "finalize: finish"))
    work(stage, "Try")
    assert place(run) == "ship active"
    assert output(run, "seek")["result"] == {"sum": 1, "because": reason}


def raises(state: GoalState) -> Any:
    raise RuntimeError("out of reach")


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        (raises, "RuntimeError: out of reach"),
        (lambda state: None, "The judge answered no decision: done, continue or replan."),
        (lambda state: {"decision": "maybe"}, "The judge answered no decision"),
        (lambda state: {"decision": "replan"}, "it planned anew and named no work"),
        (lambda state: {"decision": "replan", "tasks": [{"title": "x"}]}, "Task 1 of the goal has no goal."),
        (
            lambda state: {"decision": "continue", "tasks": [{"goal": "x", "deps": ["y"]}]},
            "its tasks could not be filed",
        ),
    ],
)
def test_a_judge_that_fails_ends_it_as_a_judge_error(
    stage: Stage, judge: Callable[[GoalState], Any], words: str
) -> None:
    SAYS["judge"] = judge
    SAYS["plan"] = lambda state: []
    run = begun(stage)
    work(stage, "Try")
    assert place(run) == "seek failed"
    assert words in fresh(run).error
    assert termination(run)["reason"] == "judge-error"


def test_a_finalize_that_raises_fails_the_step(stage: Stage) -> None:
    SAYS["judge"] = lambda state: {"decision": "done"}
    SAYS["finish"] = raises
    run = begun(stage, STEPS.replace("replanner: plan", "finalize: finish"))
    work(stage, "Try")
    assert (place(run), "out of reach" in fresh(run).error) == ("seek failed", True)


def test_without_a_seed_it_is_judged_at_once(stage: Stage) -> None:
    SAYS["judge"] = lambda state: {"decision": "replan" if state.iteration == 1 else "done"}
    SAYS["plan"] = lambda state: ["The first thing"]
    run = begun(stage, STEPS.replace('tasks: [{key: try, goal: "Try {{ input.what }}", title: Try}]', "color: red"))
    assert Task.objects.get().goal == "The first thing"
    work(stage, "Seek")
    assert place(run) == "ship active"


@pytest.mark.parametrize(
    ("was", "becomes", "words"),
    [
        ("judge: judge", "judge: nobody", "“nobody” of Seek is not registered"),
        ("replanner: plan", "replanner: nobody", "“nobody” of Seek is not registered"),
        ("max_iterations: 3", "color: red", "has no max_iterations"),
    ],
)
def test_what_it_cannot_do_without_fails_the_step_at_once(stage: Stage, was: str, becomes: str, words: str) -> None:
    run = begun(stage, STEPS.replace(was, becomes))
    assert place(run) == "seek failed"
    assert words in fresh(run).error


def test_a_cancel_of_the_run_ends_its_tasks_and_asks_no_judge(stage: Stage) -> None:
    run = begun(stage)
    flows.cancel_run(stage.anna, fresh(run))
    settle()
    assert Task.objects.get().status == "cancelled"
    assert not SEEN


def test_a_task_of_an_earlier_iteration_that_is_retried_changes_nothing(stage: Stage) -> None:
    SAYS["judge"] = lambda state: {"decision": "replan" if state.iteration == 1 else "done"}
    SAYS["plan"] = lambda state: [{"key": "a", "goal": "First", "title": "First"}]
    run = begun(stage)
    failed = work(stage, "Try", fails="Not yet.")
    tasks.retry(stage.anna, failed)
    work(stage, "Try")
    assert place(run) == "seek active"
    work(stage, "First")
    assert place(run) == "ship active"
    assert [state.iteration for state in SEEN if not state.verdict] == [1, 2]

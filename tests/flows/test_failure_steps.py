"""A failing step runs its `on_failure` steps once, in order, and then fails, goes on, or goes elsewhere (spec: 05)."""

from __future__ import annotations

import pytest

from boards import flows, tasks
from boards.models import Branch, Task
from boards.states import Phase
from tests import cast
from tests.flows.cast import Stage, fresh, history, place, settle
from tests.flows.kinds_cast import answer, events, open_task, outcomes, started, withdraw, work

pytestmark = pytest.mark.django_db


def flow(then: str) -> str:
    return f"""
    - key: write
      kind: agent
      assignee: writer
      prompt: Write.
      on_failure:
        steps:
          - key: clean
            name: Clean up
            kind: task
            assignee: reader
            prompt: "Clean up after: {{{{ steps.write.error }}}}"
          - {{key: look, name: Look, kind: approval, prompt: "Is it clean?"}}
        then: {then}
    - {{key: publish, kind: agent, assignee: writer, prompt: Publish.}}
    - {{key: repair, kind: agent, assignee: writer, prompt: Repair.}}
    """


def test_they_run_one_after_the_other_and_then_the_run_fails(stage: Stage) -> None:
    run = started(stage, flow("fail"))
    work(stage, "Write", fails="No ink.")
    assert place(run) == "write active", "the run goes on as long as its failure steps do"
    visit = fresh(run).current_visit
    assert visit is not None
    assert (visit.phase, visit.error) == (Phase.FAILURE, "No ink.")
    assert outcomes(run) == {"clean": "open"}
    assert "Clean up after: No ink." in open_task("Clean up").goal
    work(stage, "Clean up", who=cast.READER)
    assert outcomes(run) == {"clean": "completed", "look": "open"}
    answer(stage, "Look", "approve")
    assert (place(run), fresh(run).error) == ("write failed", "No ink.")
    assert [len(events(run, kind)) for kind in ("step.failed", "run.failed")] == [1, 1]


@pytest.mark.parametrize(
    ("then", "where", "line"),
    [
        ("continue", "publish active", "write > publish (failure, Kinds)"),
        ("goto repair", "repair active", "write > repair (failure, Kinds)"),
    ],
)
def test_what_follows_them(stage: Stage, then: str, where: str, line: str) -> None:
    run = started(stage, flow(then))
    work(stage, "Write", fails="No ink.")
    work(stage, "Clean up", who=cast.READER)
    answer(stage, "Look", "approve")
    assert place(run) == where
    assert history(run)[-1] == line


@pytest.mark.parametrize("then", ["continue", "goto repair"])
def test_without_steps_the_run_goes_straight_there(stage: Stage, then: str) -> None:
    steps = f"""
    - {{key: write, kind: agent, assignee: writer, prompt: Write., on_failure: {{then: {then}}}}}
    - {{key: repair, kind: agent, assignee: writer, prompt: Repair.}}
    """
    run = started(stage, steps)
    work(stage, "Write", fails="No ink.")
    assert place(run) == "repair active"


def test_one_that_fails_itself_fails_the_run_and_none_after_it_begins(stage: Stage) -> None:
    run = started(stage, flow("continue"))
    work(stage, "Write", fails="No ink.")
    work(stage, "Clean up", fails="No broom.", who=cast.READER)
    assert place(run) == "write failed"
    assert fresh(run).error == "No ink. Clean up failed too: No broom."
    assert outcomes(run) == {"clean": "failed"}


def test_a_rejected_one_fails_the_run_in_words(stage: Stage) -> None:
    run = started(stage, flow("continue"))
    work(stage, "Write", fails="No ink.")
    work(stage, "Clean up", who=cast.READER)
    answer(stage, "Look", "reject", text="Not at all.")
    assert place(run) == "write failed"
    assert fresh(run).error == "No ink. Look failed too: Anna rejected it: Not at all."


def test_one_that_is_retried_and_completes_lets_the_run_go_on(stage: Stage) -> None:
    run = started(stage, flow("continue"))
    work(stage, "Write", fails="No ink.")
    failed = work(stage, "Clean up", fails="No broom.", who=cast.READER)
    tasks.retry(stage.anna, failed)
    work(stage, "Clean up", who=cast.READER)
    assert (place(run), outcomes(run)) == ("write active", {"clean": "completed", "look": "open"})
    answer(stage, "Look", "approve")
    assert place(run) == "publish active"


def test_a_step_that_is_run_again_and_fails_again_runs_them_again(stage: Stage) -> None:
    run = started(stage, flow("fail"))
    for number in (1, 2):
        work(stage, "Write", fails=f"No ink, {number}.")
        work(stage, "Clean up", who=cast.READER)
        answer(stage, "Look", "approve")
        assert (place(run), fresh(run).error) == ("write failed", f"No ink, {number}.")
        flows.run_again(stage.anna, fresh(run))
        assert place(run) == "write active"
    rounds = Branch.objects.filter(visit__run=run, key="clean").values_list("round", flat=True)
    assert list(rounds) == [1, 2]


def test_a_withdrawn_turn_runs_them_too(stage: Stage) -> None:
    run = started(stage, flow("goto repair"))
    withdraw(stage, "Write")
    assert outcomes(run) == {"clean": "open"}
    assert events(run, "step.failed")[0].cause == "timeout"
    assert "The due time of Write passed" in open_task("Clean up").goal


def test_a_step_that_cannot_begin_runs_them_too(stage: Stage) -> None:
    steps = """
    - key: write
      kind: agent
      assignee: nobody-here
      prompt: Write.
      on_failure:
        steps: [{key: clean, kind: task, assignee: reader, prompt: Clean up.}]
        then: continue
    - {key: publish, kind: agent, assignee: writer, prompt: Publish.}
    """
    run = started(stage, steps)
    assert outcomes(run) == {"clean": "open"}
    work(stage, "clean", who=cast.READER)
    assert place(run) == "publish active"


def test_one_that_cannot_begin_fails_the_run(stage: Stage) -> None:
    steps = """
    - key: write
      kind: agent
      assignee: writer
      prompt: Write.
      on_failure: {steps: [{key: clean, name: Clean, kind: task, assignee: nobody-here, prompt: Go.}], then: continue}
    """
    run = started(stage, steps)
    work(stage, "Write", fails="No ink.")
    assert place(run) == "write failed"
    assert "Clean could not begin: “nobody-here” is not on the roster" in fresh(run).error


def test_a_cancel_of_the_run_cancels_the_one_that_works(stage: Stage) -> None:
    run = started(stage, flow("fail"))
    work(stage, "Write", fails="No ink.")
    flows.cancel_run(stage.anna, fresh(run))
    settle()
    assert place(run) == "write cancelled"
    assert set(Task.objects.filter(visit__run=run).values_list("status", flat=True)) == {"errored", "cancelled"}
    assert "open" not in outcomes(run).values()


def test_a_move_away_ends_the_one_that_is_at_work(stage: Stage) -> None:
    run = started(stage, flow("fail"))
    work(stage, "Write", fails="No ink.")
    flows.move(stage.anna, fresh(run), "repair")
    settle()
    assert place(run) == "repair active"
    assert outcomes(run) == {"clean": "cancelled"}
    assert Task.objects.get(title__startswith="Clean up").status == "cancelled"


def test_a_cancel_of_the_run_closes_the_question_of_one(stage: Stage) -> None:
    run = started(stage, flow("fail"))
    work(stage, "Write", fails="No ink.")
    work(stage, "Clean up", who=cast.READER)
    flows.cancel_run(stage.anna, fresh(run))
    settle()
    assert outcomes(run) == {"clean": "completed", "look": "cancelled"}

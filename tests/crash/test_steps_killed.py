"""A process that moves a run is killed at every commit in turn; what is left is finished on resume, once (05, 2.9).

Each test lets one act go through a copy of this process that dies before its first commit, behind it, behind the
second, and so on until it lives (before the second is, to everybody else, behind the first). Then the act is repeated
where it had not landed, the sweeper passes, and the run must stand where it would have stood, with nothing done twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from boards import flows, sweeping, tasks
from boards.flows import goals
from boards.models import Branch, Debt, Event, FlowRun, StepChange, Task, Visit
from boards.tasks import Claimed
from tests import cast
from tests.crash.dying import AFTER, BEFORE, dies_at
from tests.flows.cast import Stage, fresh, place
from tests.flows.kinds_cast import define

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

MOST = 30  # commits of one act; far more than any takes


@pytest.fixture
def stage() -> Stage:
    return Stage()


class Scene:
    """A run that was brought to where an act is due. `landed`: whether the act's own write is there already."""

    def __init__(self, run: FlowRun, act: Callable[[], object], landed: Callable[[], bool]) -> None:
        self.run, self.act, self.landed = run, act, landed


def at_every_commit(scene: Callable[[], Scene], check: Callable[[FlowRun], None]) -> None:
    killed = 0
    for commit, where in [(1, BEFORE), *((commit, AFTER) for commit in range(1, MOST))]:
        one = scene()
        died = dies_at(one.act, commit, where)
        if not one.landed():
            assert died
            one.act()
        resume()
        check(one.run)
        if not died:
            break
        killed += 1
    assert 3 <= killed < MOST - 1, "the act has several commits, and was killed at each"


def resume() -> None:
    """Pass until nothing is due; a function of a goal that died is due again only after a while."""
    for _ in range(20):
        Debt.objects.filter(kind="goal_judge", state="owed").update(due_at=Now())
        if sweeping.sweep_once().total == 0:
            break
    assert not Debt.objects.exclude(payer__startswith="drain").exists(), list(Debt.objects.values())


def ends(stage: Stage, got: Claimed, *, fails: str = "", who: str = cast.WRITER) -> Callable[[], object]:
    chain = cast.agent_chain(stage.board, who)
    if fails:
        return lambda: tasks.fail(chain, got.task, fails, claim=got.ticket, for_good=True)
    return lambda: tasks.complete(chain, got.task, {"text": "Words"}, claim=got.ticket)


def claimed(stage: Stage, run: FlowRun, title: str, who: str = cast.WRITER) -> Claimed:
    """The task of this run that begins so; whatever else is ready stays as it is."""
    wanted = Task.objects.get(visit__run=run, title__startswith=title, status="pending")
    others = Task.objects.filter(status="pending").exclude(pk=wanted.pk)
    held = list(others.values_list("pk", flat=True))
    others.update(status="held")
    got = stage.claim(who)
    Task.objects.filter(pk__in=held).update(status="pending")
    assert got.task.pk == wanted.pk
    return got


def scene_of(stage: Stage, steps: str, before: Callable[[FlowRun], Claimed], **ending: Any) -> Callable[[], Scene]:
    made = define(stage, steps)

    def scene() -> Scene:
        run = flows.start(stage.anna, made, {})
        resume()
        got = before(run)
        return Scene(run, ends(stage, got, **ending), lambda: cast.fresh(got.task).is_ended)

    return scene


def entered_once(run: FlowRun, step: str) -> None:
    assert StepChange.objects.filter(run=run, to_step=step).count() == 1
    assert Visit.objects.filter(run=run, step_key=step).count() == 1
    assert Task.objects.filter(visit__run=run, visit__step_key=step).count() == 1


def events(run: FlowRun, kind: str) -> int:
    return Event.objects.filter(run=run, kind=kind).count()


PARALLEL = """
- key: both
  kind: parallel
  join: {join}
  branches:
    - {{key: a, kind: agent, assignee: writer, prompt: A.}}
    - {{key: b, kind: agent, assignee: reader, prompt: B.}}
    - {{key: c, kind: approval, prompt: "Fine?"}}
- {{key: ship, kind: agent, assignee: reader, prompt: Ship.}}
"""


def test_the_join_of_a_parallel(stage: Stage) -> None:
    def check(run: FlowRun) -> None:
        assert place(run) == "ship active"
        entered_once(run, "ship")
        losers = Task.objects.filter(visit__run=run, title__startswith="b")
        assert [task.status for task in losers] == ["cancelled"]
        assert Event.objects.filter(task__in=losers, kind="task.cancelled").count() == 1
        assert events(run, "hold.discarded") == 1
        assert not Branch.objects.filter(visit__run=run, outcome="").exists()

    at_every_commit(scene_of(stage, PARALLEL.format(join="any"), lambda run: claimed(stage, run, "a")), check)


def test_a_branch_that_fails_its_step(stage: Stage) -> None:
    def check(run: FlowRun) -> None:
        assert place(run) == "both failed"
        assert (events(run, "step.failed"), events(run, "run.failed"), events(run, "hold.discarded")) == (1, 1, 1)
        assert Task.objects.get(visit__run=run, title__startswith="b").status == "cancelled"

    steps = PARALLEL.format(join="all")
    at_every_commit(scene_of(stage, steps, lambda run: claimed(stage, run, "a"), fails="No."), check)


STAGE = """
- key: build
  kind: stage
  tasks:
    - {key: a, goal: A, title: a, assignee: writer}
    - {key: b, goal: B, title: b, assignee: writer, deps: [a]}
- {key: ship, kind: agent, assignee: reader, prompt: Ship.}
"""


def test_the_last_task_of_a_stage(stage: Stage) -> None:
    def before(run: FlowRun) -> Claimed:
        ends(stage, claimed(stage, run, "a"))()
        resume()
        return claimed(stage, run, "b")

    def check(run: FlowRun) -> None:
        assert place(run) == "ship active"
        entered_once(run, "ship")
        assert Task.objects.filter(visit__run=run, stage="build").count() == 2

    at_every_commit(scene_of(stage, STAGE, before), check)


def test_a_stage_is_filed_once(stage: Stage) -> None:
    steps = "- {key: plan, kind: agent, assignee: writer, prompt: Plan.}\n" + STAGE.strip()

    def check(run: FlowRun) -> None:
        assert place(run) == "build active"
        assert sorted(task.title[0] for task in Task.objects.filter(visit__run=run, stage="build")) == ["a", "b"]
        assert Branch.objects.filter(visit__run=run).count() == 2

    at_every_commit(scene_of(stage, steps, lambda run: claimed(stage, run, "Plan")), check)


HANDLED = """
- key: write
  kind: agent
  assignee: writer
  prompt: Write.
  on_failure:
    steps:
      - {key: clean, name: Clean, kind: task, assignee: reader, prompt: Clean.}
      - {key: tell, name: Tell, kind: task, assignee: reader, prompt: Tell.}
    then: continue
- {key: ship, kind: agent, assignee: writer, prompt: Ship.}
"""


def test_a_step_that_fails_begins_its_failure_steps(stage: Stage) -> None:
    def check(run: FlowRun) -> None:
        assert place(run) == "write active"
        assert events(run, "step.failed") == 1
        assert [branch.key for branch in Branch.objects.filter(visit__run=run)] == ["clean"]
        assert Task.objects.filter(visit__run=run, title__startswith="Clean").count() == 1

    at_every_commit(scene_of(stage, HANDLED, lambda run: claimed(stage, run, "Write"), fails="No ink."), check)


def test_the_last_failure_step_lets_the_run_go_on(stage: Stage) -> None:
    def before(run: FlowRun) -> Claimed:
        ends(stage, claimed(stage, run, "Write"), fails="No ink.")()
        resume()
        ends(stage, claimed(stage, run, "Clean", cast.READER), who=cast.READER)()
        resume()
        return claimed(stage, run, "Tell", cast.READER)

    def check(run: FlowRun) -> None:
        assert place(run) == "ship active"
        entered_once(run, "ship")
        assert list(StepChange.objects.filter(run=run).values_list("trigger", flat=True)) == ["start", "failure"]
        assert Branch.objects.filter(visit__run=run, outcome="completed").count() == 2

    at_every_commit(scene_of(stage, HANDLED, before, who=cast.READER), check)


CALLS = """
- {key: plan, kind: agent, assignee: writer, prompt: Plan.}
- {key: part, kind: call, flow: child}
- {key: ship, kind: agent, assignee: reader, prompt: Ship.}
"""
CHILD = "- {key: write, name: Child, kind: agent, assignee: writer, prompt: Go.}"


def test_a_called_run_is_started_once(stage: Stage) -> None:
    define(stage, CHILD, key="child")

    def check(run: FlowRun) -> None:
        assert place(run) == "part active"
        child = FlowRun.objects.get(called_by__run=run)
        assert place(child) == "write active"
        entered_once(child, "write")

    at_every_commit(scene_of(stage, CALLS, lambda run: claimed(stage, run, "Plan")), check)


def test_the_end_of_a_called_run_moves_its_caller_once(stage: Stage) -> None:
    define(stage, CHILD, key="child")

    def before(run: FlowRun) -> Claimed:
        ends(stage, claimed(stage, run, "Plan"))()
        resume()
        return claimed(stage, FlowRun.objects.get(called_by__run=run), "Child")

    def check(run: FlowRun) -> None:
        assert FlowRun.objects.get(called_by__run=run).status == "completed"
        assert place(run) == "ship active"
        entered_once(run, "ship")

    at_every_commit(scene_of(stage, CALLS, before), check)


def test_a_cancel_reaches_the_called_run(stage: Stage) -> None:
    define(stage, CHILD, key="child")
    made = define(stage, CALLS)

    def scene() -> Scene:
        run = flows.start(stage.anna, made, {})
        ends(stage, claimed(stage, run, "Plan"))()
        resume()
        return Scene(run, lambda: flows.cancel_run(stage.anna, fresh(run)), lambda: fresh(run).status == "cancelled")

    def check(run: FlowRun) -> None:
        child = FlowRun.objects.get(called_by__run=run)
        assert (fresh(run).status, child.status) == ("cancelled", "cancelled")
        assert (events(run, "run.cancelled"), events(child, "run.cancelled")) == (1, 1)
        assert Task.objects.filter(visit__run=child).get().status == "cancelled"

    at_every_commit(scene, check)


def test_a_wait_whose_time_has_come_fires_once(stage: Stage) -> None:
    steps = """
    - {key: pause, kind: wait, duration_ms: 3600000}
    - {key: choose, kind: choice, choices: [{step: ship}]}
    - {key: ship, kind: agent, assignee: reader, prompt: Ship.}
    """
    made = define(stage, steps)

    def scene() -> Scene:
        run = flows.start(stage.anna, made, {})
        Visit.objects.filter(run=run, step_key="pause").update(due_at=Now() - timedelta(hours=1))
        return Scene(run, sweeping.sweep_once, lambda: True)

    def check(run: FlowRun) -> None:
        assert place(run) == "ship active"
        entered_once(run, "ship")
        assert StepChange.objects.filter(run=run).count() == 3

    at_every_commit(scene, check)


def test_notices_and_tasks_beside_the_run_are_made_once(stage: Stage) -> None:
    steps = """
    - key: write
      kind: agent
      assignee: writer
      prompt: Write.
      events: {on_turn_complete: [{type: create_task, goal: Tell, title: beside}, move_to_next]}
    - {key: tell, kind: notify, prompt: Written.}
    - {key: ship, kind: agent, assignee: reader, prompt: Ship.}
    """
    count = itertools.count(1)

    def check(run: FlowRun) -> None:
        assert place(run) == "ship active"
        entered_once(run, "ship")
        assert events(run, "run.notified") == 1
        assert Task.objects.filter(title="beside").count() == next(count)

    at_every_commit(scene_of(stage, steps, lambda run: claimed(stage, run, "Write")), check)


def test_a_loop_files_each_iteration_once(stage: Stage) -> None:
    steps = """
    - key: seek
      kind: loop
      assignee: writer
      judge: killed-judge
      finalize: killed-finalize
      max_iterations: 3
      tasks: [{key: a, goal: A, title: first}]
    - {key: ship, kind: agent, assignee: reader, prompt: Ship.}
    """
    goals.GOALS["killed-judge"] = lambda state: (
        {"decision": "replan", "tasks": [{"key": "b", "goal": "B", "title": "second"}]}
        if state.iteration == 1
        else {"decision": "done"}
    )
    goals.GOALS["killed-finalize"] = lambda state: len(state.tasks)

    def check_second(run: FlowRun) -> None:
        assert place(run) == "seek active"
        assert list(Branch.objects.filter(visit__run=run).values_list("round", "key")) == [(1, "a"), (2, "b")]
        assert Task.objects.filter(visit__run=run).count() == 2

    def check_end(run: FlowRun) -> None:
        assert place(run) == "ship active"
        entered_once(run, "ship")
        assert run.visits.get(step_key="seek").output["result"] == 2
        assert events(run, "step.loop_ended") == 1

    def to_second(run: FlowRun) -> Claimed:
        ends(stage, claimed(stage, run, "first"))()
        resume()
        return claimed(stage, run, "second")

    try:
        at_every_commit(scene_of(stage, steps, lambda run: claimed(stage, run, "first")), check_second)
        at_every_commit(scene_of(stage, steps, to_second), check_end)
    finally:
        del goals.GOALS["killed-judge"], goals.GOALS["killed-finalize"]


def test_the_copy_that_dies_takes_nothing_of_ours_with_it(stage: Stage) -> None:
    """What the other tests rely on: a kill before a commit loses it, one behind keeps it, and this session lives."""

    def write() -> None:
        with transaction.atomic():
            StepChange.objects.filter(pk=0).delete()
            stage.board.name = "Written"
            stage.board.save()

    assert dies_at(write, 1, BEFORE)
    stage.board.refresh_from_db()
    assert stage.board.name != "Written"
    assert dies_at(write, 1, AFTER)
    stage.board.refresh_from_db()
    assert stage.board.name == "Written"
    assert not dies_at(write, 2, BEFORE)
    assert connection.is_usable()

"""A due time against what ends the same task at the same moment: one of the two wins, the other is told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import flows, tasks
from boards.actors import Chain
from boards.debts import paying
from boards.models import Attempt, Debt, Event, FlowRun, Visit
from boards.tasks import Claimed, Reason, Recorded, TaskWriteOutcome
from tests import cast
from tests.flows.cast import Stage, fresh, place, settle, step_task
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)

TIMED = """
key: timed
name: Timed
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Write., timeout_ms: 60000}
  - {key: done, name: Done}
"""


@pytest.fixture
def stage() -> Stage:
    return Stage()


def late(run: FlowRun) -> None:
    Visit.objects.filter(run=run).update(due_at=Now() - timedelta(milliseconds=1))


def stopped() -> None:
    for debt in Debt.objects.filter(kind="session_stop"):
        paying.pay(debt.pk)
    settle()


def completed(agent: Chain, got: Claimed, looks: int) -> TaskWriteOutcome:
    """Hand in after so many looks at the database: the sweeper looks too, before it locks."""
    for _ in range(looks):
        Visit.objects.exists()
    return tasks.complete(agent, got.task, {"n": 1}, claim=got.ticket, if_allowed=True)


def test_against_completion_exactly_one_wins_two_hundred_times(stage: Stage) -> None:
    flow, agent = stage.flow(TIMED), cast.agent_chain(stage.board)
    won = {"completed": 0, "withdrawn": 0}
    for round_ in range(200):
        run = flows.start(stage.anna, flow, {})
        got = stage.claim()
        late(run)
        told, withdrawn = at_once(lambda got=got, n=round_: completed(agent, got, n % 25), flows.withdraw_due)
        stopped()
        assert isinstance(told, TaskWriteOutcome)
        task, row = cast.fresh(got.task), fresh(run)
        if withdrawn:
            won["withdrawn"] += 1
            assert (told.result, told.reason) == (Recorded.DECLINED, Reason.TERMINAL)
            assert "due time passed" in told.sentence
            assert (task.status, bool(task.withdrawn), place(run)) == ("cancelled", True, "write failed")
            assert Attempt.objects.get(task=task).ending == "withdrawn"
        else:
            won["completed"] += 1
            assert told.result is Recorded.RECORDED
            assert (task.status, task.withdrawn, place(run), row.error) == ("completed", None, "done completed", "")
        assert Event.objects.filter(task=task, kind__in=["task.completed", "task.withdrawn"]).count() == 1
    assert min(won.values()) > 0, "the two really met"
    assert not Debt.objects.exists()


def test_six_sweepers_withdraw_once(stage: Stage) -> None:
    for _ in range(10):
        run = stage.started(TIMED)
        late(run)
        assert sum(at_once(*[flows.withdraw_due] * 6)) == 1
        assert Event.objects.filter(run=run, kind="step.failed").count() == 1


def test_against_a_person_who_cancels_the_turn_one_of_the_two_has_ended_it(stage: Stage) -> None:
    for _ in range(20):
        run = stage.started(TIMED)
        stage.claim()
        late(run)
        cancelled, withdrawn = at_once(lambda run=run: flows.cancel_turn(stage.anna, fresh(run)), flows.withdraw_due)
        stopped()
        assert (cancelled.result is Recorded.RECORDED) is (withdrawn == 0)
        assert place(run) == ("write failed" if withdrawn else "write active")
        assert bool(step_task(run).withdrawn) is bool(withdrawn)


def test_against_a_person_who_moves_it_the_run_fails_or_goes_on(stage: Stage) -> None:
    for _ in range(20):
        run = stage.started(TIMED)
        Visit.objects.filter(run=run).update(due_at=Now() + timedelta(milliseconds=3))
        later = fresh(run).created_at + timedelta(hours=1)
        moved, _ = at_once(
            lambda run=run, later=later: flows.move_due_time(stage.anna, fresh(run), later, "Later"),
            lambda run=run: [flows.withdraw_due() for _ in range(5)],
        )
        flows.withdraw_due()
        settle()
        if isinstance(moved, FlowRun):
            assert (place(run), step_task(run).withdrawn) == ("write active", None)
        else:
            assert place(run) == "write failed"

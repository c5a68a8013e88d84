"""Due times and cancels where a step has several works: one of them, or all of them (spec: 05 sections 3, 4.5)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import flows, sweeping, tasks
from boards.debts import paying
from boards.models import Attempt, Branch, Debt, Event, FlowRun, Hold, Task, Visit
from tests import cast
from tests.flows.cast import Stage, fresh, place, settle
from tests.flows.kinds_cast import events, open_task, outcomes, started, work

pytestmark = pytest.mark.django_db(transaction=True)

CHECKS = """
- key: checks
  name: Checks
  kind: parallel
  timeout_ms: 3600000
  cancel_triggers_turn_complete: {flag}
  branches:
    - {{key: tests, name: Tests, kind: agent, assignee: writer, prompt: Test.}}
    - {{key: safety, name: Safety, kind: task, assignee: reader, prompt: Look., timeout_ms: 60000}}
    {more}
- {{key: ship, kind: agent, assignee: writer, prompt: Ship.}}
"""
CONSENT = '- {key: consent, name: Consent, kind: approval, prompt: "Is it fine?"}'
BUILD = """
- key: build
  name: Build
  kind: stage
  assignee: writer
  tasks:
    - {key: plan, goal: Plan it, title: Plan, timeout_ms: 60000}
    - {key: code, goal: Code it, title: Code, deps: [plan]}
    - {key: docs, goal: Describe it, title: Docs, assignee: reader, required: false}
- {key: ship, kind: agent, assignee: writer, prompt: Ship.}
"""


def checks(stage: Stage, *, flag: bool = False, more: str = "") -> FlowRun:
    return started(stage, CHECKS.format(flag=str(flag).lower(), more=more))


def late(*keys: str) -> None:
    """The due times of these works, or of the whole stay where none is named, have passed."""
    past = Now() - timedelta(seconds=1)
    Branch.objects.filter(key__in=keys).update(due_at=past)
    if not keys:
        Visit.objects.filter(left_at=None).update(due_at=past)


def stops() -> list[Debt]:
    return list(Debt.objects.filter(kind="session_stop").order_by("pk"))


class TestOneOfThem:
    def test_a_late_branch_is_withdrawn_and_the_others_work_on(self, stage: Stage) -> None:
        run = checks(stage)
        stage.claim("reader")
        late("safety")
        assert flows.withdraw_due() == 1
        assert outcomes(run) == {"tests": "open", "safety": "open"}, "its worker has not stopped yet"
        event = Event.objects.get(kind="task.withdrawn")
        assert event.data["due_at"] == Branch.objects.get(key="safety").due_at.isoformat()
        assert open_task("Tests").status == "pending"
        paying.pay(stops()[0].pk)
        assert place(run) == "checks failed", "all of them were to complete"
        assert (events(run, "step.failed")[0].cause, outcomes(run)) == (
            "timeout",
            {"tests": "cancelled", "safety": "withdrawn"},
        )

    def test_a_required_task_of_a_stage_stays_required(self, stage: Stage) -> None:
        run = started(stage, BUILD)
        late("plan")
        sweeping.sweep_once()
        assert (place(run), outcomes(run)) == ("build active", {"plan": "withdrawn", "code": "open", "docs": "open"})
        code = open_task("Code")
        assert (code.status, code.unmet_deps) == ("pending", 1), "what depends on it keeps waiting"
        work(stage, "Docs", who=cast.READER)
        assert place(run) == "build active"
        visit = fresh(run).current_visit
        assert visit is not None
        assert "due time" in visit.error
        assert sweeping.sweep_once().done["tasks withdrawn"] == 0

    def test_each_fires_once_and_by_its_own_time(self, stage: Stage) -> None:
        run = started(stage, BUILD)
        assert 0 < sweeping.seconds_to_next(1e9) <= 60
        late("plan")
        assert [flows.withdraw_due() for _ in range(3)] == [1, 0, 0]
        assert events(run, "step.failed") == []

    def test_a_failure_step_has_a_due_time_only_where_it_is_written(self, stage: Stage) -> None:
        steps = """
        - key: write
          name: Write
          kind: agent
          assignee: writer
          prompt: Write.
          timeout_ms: 60000
          on_failure:
            steps:
              - {key: clean, name: Clean up, kind: agent, assignee: reader, prompt: Clean up.}
              - {key: tell, name: Tell, kind: agent, assignee: reader, prompt: Tell., timeout_ms: 60000}
            then: continue
        - {key: ship, kind: agent, assignee: writer, prompt: Ship.}
        """
        run = started(stage, steps)
        late()
        sweeping.sweep_once()
        assert (place(run), outcomes(run)) == ("write active", {"clean": "open"})
        assert flows.withdraw_due() == 0, "the stay's own due time is over; the failure step has none"
        work(stage, "Clean up", who=cast.READER)
        late("tell")
        sweeping.sweep_once()
        assert (place(run), outcomes(run)) == ("write failed", {"clean": "completed", "tell": "withdrawn"})
        assert Event.objects.filter(run=run, kind="task.withdrawn").count() == 2
        assert len(events(run, "step.failed")) == 1, "the failure steps ran once"


class TestAllOfThem:
    def test_past_the_stays_due_time_everything_of_it_is_withdrawn_and_the_step_fails_once(self, stage: Stage) -> None:
        run = checks(stage, more=CONSENT)
        stage.claim("writer")
        stage.claim("reader")
        late()
        assert flows.withdraw_due() == 2
        assert set(Task.objects.values_list("status", flat=True)) == {"cancelled"}
        assert Attempt.objects.exclude(lend_ended_at=None).count() == 2
        first, second = stops()
        paying.pay(first.pk)
        assert place(run) == "checks active", "the other worker has not stopped yet"
        paying.pay(second.pk)
        assert place(run) == "checks failed"
        assert fresh(run).error == "The due time of Checks passed, so what it still had at work was withdrawn."
        assert len(events(run, "step.failed")) == 1
        assert outcomes(run) == {"tests": "withdrawn", "safety": "withdrawn", "consent": "cancelled"}
        assert Hold.objects.get().state == "discarded"
        assert not Debt.objects.exists()

    def test_what_has_completed_keeps_its_result(self, stage: Stage) -> None:
        run = checks(stage)
        work(stage, "Tests")
        late()
        sweeping.sweep_once()
        assert (place(run), outcomes(run)) == ("checks failed", {"tests": "completed", "safety": "withdrawn"})


class TestCancelOfTheTurn:
    def test_the_card_moves_when_the_last_of_them_has_stopped(self, stage: Stage) -> None:
        run = checks(stage, flag=True)
        stage.claim("writer")
        stage.claim("reader")
        assert flows.cancel_turn(stage.anna, run).landed
        assert len(events(run, "step.turn_cancelled")) == 1
        first, second = stops()
        paying.pay(first.pk)
        assert place(run) == "checks active"
        paying.pay(second.pk)
        assert place(run) == "ship active"

    def test_without_the_flag_the_run_pauses(self, stage: Stage) -> None:
        run = checks(stage)
        flows.cancel_turn(stage.anna, run)
        settle()
        visit = fresh(run).current_visit
        assert visit is not None
        assert (place(run), visit.phase) == ("checks active", "paused")

    def test_a_question_that_it_closes_is_the_barrier(self, stage: Stage) -> None:
        run = checks(stage, flag=True, more=CONSENT)
        flows.cancel_turn(stage.anna, run)
        settle()
        assert Hold.objects.get().state == "discarded"
        assert outcomes(run) == {"tests": "cancelled", "safety": "cancelled", "consent": "cancelled"}
        assert place(run) == "checks active"

    def test_a_question_of_one_task_is_the_barrier_too(self, stage: Stage) -> None:
        from boards import people

        run = checks(stage, flag=True)
        ticket = stage.claim("reader").ticket
        people.open_hold(cast.agent_chain(stage.board, "reader"), claim=ticket, kind="question", prompt="Which?")
        flows.cancel_turn(stage.anna, run)
        for debt in stops():
            paying.pay(debt.pk)
        assert place(run) == "checks active"

    def test_a_stage_is_cancelled_whole(self, stage: Stage) -> None:
        run = started(stage, BUILD)
        flows.cancel_turn(stage.anna, run)
        settle()
        visit = fresh(run).current_visit
        assert visit is not None
        assert (place(run), visit.phase, visit.error) == ("build active", "paused", "")
        assert set(outcomes(run).values()) == {"cancelled"}

    def test_a_step_that_waits_for_another_run_has_no_turn_of_its_own(self, stage: Stage) -> None:
        started(stage, "- {key: inner, kind: agent, assignee: writer, prompt: Work.}", key="called")
        run = started(stage, "- {key: outer, kind: call, flow: called}")
        with pytest.raises(flows.IllegalRunMove, match="Cancel that run instead"):
            flows.cancel_turn(stage.anna, run)

    def test_late_results_of_all_of_them_are_refused(self, stage: Stage) -> None:
        run = checks(stage, flag=True)
        got = [stage.claim("writer"), stage.claim("reader")]
        flows.cancel_turn(stage.anna, run)
        for debt in stops():
            paying.pay(debt.pk)
        for each in got:
            agent = cast.agent_chain(stage.board, each.task.assignee)
            assert not tasks.complete(agent, each.task, {}, claim=each.ticket, if_allowed=True).landed
        settle()
        assert place(run) == "ship active"

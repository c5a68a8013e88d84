"""Cancelling a turn or a run: one write, its debts in order, nothing that happens twice (spec: 05 section 3)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from boards import flows, people, tasks
from boards.debts import paying
from boards.flows import cancelling
from boards.models import Branch, Debt, Event, FlowOperation, FlowRun, Hold, Task, TranscriptItem, Visit
from boards.tasks import Reason, Recorded
from tests import cast
from tests.flows.cast import Stage, fresh, place, settle, step_task
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)

COMPLETES = """
key: completes
name: Completes
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go., cancel_triggers_turn_complete: true}
  - {key: read, name: Read, kind: agent, assignee: reader, prompt: Read.}
  - {key: done, name: Done}
"""
PAUSES = COMPLETES.replace(", cancel_triggers_turn_complete: true", "").replace("completes", "pauses")


@pytest.fixture
def run(stage: Stage) -> FlowRun:
    return stage.started(COMPLETES)


def stop_of(task: Task) -> Debt:
    return Debt.objects.get(task=task, kind="session_stop")


class TestTurn:
    def test_one_write_ends_it_and_the_debts_stand_in_their_order(self, stage: Stage, run: FlowRun) -> None:
        stage.claim()
        flows.cancel_turn(stage.anna, run)
        stop, advance = stop_of(step_task(run)), Debt.objects.get(kind="flow_advance")
        assert (advance.after_id, advance.data["cause"], stop.data["cause"]) == (stop.pk, "user_cancel", "user_cancel")
        paying.pay_due()
        assert place(run) == "write active", "the card waits for the stop"
        paying.pay(stop.pk)
        assert place(run) == "read active"

    def test_two_at_once_share_one_operation(self, stage: Stage, run: FlowRun) -> None:
        stage.claim()
        outcomes = at_once(*[lambda: flows.cancel_turn(stage.anna, fresh(run))] * 6)
        assert sorted(outcome.result for outcome in outcomes) == [Recorded.DECLINED] * 5 + [Recorded.RECORDED]
        paying.pay(stop_of(step_task(run)).pk)
        assert place(run) == "read active"
        assert Event.objects.filter(run=run, kind="step.turn_cancelled").count() == 1
        assert FlowOperation.objects.filter(run=run, trigger="task_ended").count() == 1
        assert TranscriptItem.objects.filter(text="Turn cancelled by Anna").count() == 1

    def test_a_stop_that_fails_is_listed_and_tried_again_and_nothing_moves(
        self, stage: Stage, run: FlowRun, payers: dict[str, Any]
    ) -> None:
        stage.claim()
        flows.cancel_turn(stage.anna, run)
        stop = stop_of(step_task(run))
        pay, payers["session_stop"] = payers["session_stop"], lambda debt: 1 / 0
        assert paying.pay(stop.pk) is paying.Paid.FAILED
        Debt.objects.filter(pk=stop.pk).update(created_at=Now() - timedelta(minutes=1))
        client = Client()
        client.force_login(stage.operator.user)
        listed = client.get(reverse("web:needs_you")).content.decode()
        assert "is still being stopped" in listed
        assert place(run) == "write active"
        stop.refresh_from_db()
        assert (stop.state, stop.tries) == ("owed", 1)
        payers["session_stop"] = pay
        paying.pay(stop.pk)
        assert place(run) == "read active"

    def test_until_the_stop_is_paid_nobody_moves_the_run_by_hand(self, stage: Stage, run: FlowRun) -> None:
        stage.claim()
        flows.cancel_turn(stage.anna, run)
        for act in (
            lambda: flows.mark_complete(stage.anna, fresh(run)),
            lambda: flows.run_again(stage.anna, fresh(run)),
            lambda: flows.move(stage.anna, fresh(run), "done"),
        ):
            with pytest.raises(flows.IllegalRunMove):
                act()
        assert place(run) == "write active"

    def test_a_write_that_fails_completes_nothing_and_a_later_try_may(
        self, stage: Stage, run: FlowRun, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stage.claim()
        monkeypatch.setattr(cancelling, "say", lambda *words: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            flows.cancel_turn(stage.anna, fresh(run))
        assert (step_task(run).status, Debt.objects.count()) == ("in_progress", 0)
        monkeypatch.undo()
        flows.cancel_turn(stage.anna, fresh(run))
        paying.pay(stop_of(step_task(run)).pk)
        assert place(run) == "read active"

    def test_a_late_result_closes_no_newer_turn(self, stage: Stage) -> None:
        run = stage.started(PAUSES)
        old = stage.claim()
        flows.cancel_turn(stage.anna, run)
        paying.pay(stop_of(old.task).pk)
        assert place(run) == "write active"
        flows.run_again(stage.anna, fresh(run))
        stage.claim()
        late = tasks.complete(
            cast.agent_chain(stage.board), old.task, {"text": "Late"}, claim=old.ticket, if_allowed=True
        )
        settle()
        assert late.reason is Reason.LOST_CLAIM
        assert (place(run), step_task(run).status) == ("write active", "in_progress")

    def test_a_late_result_moves_the_card_no_second_time(self, stage: Stage, run: FlowRun) -> None:
        old = stage.claim()
        flows.cancel_turn(stage.anna, run)
        paying.pay(stop_of(old.task).pk)
        late = tasks.complete(
            cast.agent_chain(stage.board), old.task, {"text": "Late"}, claim=old.ticket, if_allowed=True
        )
        settle()
        assert late.reason is Reason.TERMINAL
        assert place(run) == "read active"

    def test_the_write_notes_the_open_question_that_it_closes(self, stage: Stage, run: FlowRun) -> None:
        ticket = stage.claim().ticket
        hold = people.open_hold(cast.agent_chain(stage.board), claim=ticket, kind="question", prompt="Which?")
        flows.cancel_turn(stage.anna, run)
        hold.refresh_from_db()
        assert (hold.state, hold.closed_reason) == ("discarded", "Anna cancelled this turn.")
        assert Debt.objects.get(kind="flow_advance").data["had_open_hold"] is True
        paying.pay(stop_of(step_task(run)).pk)
        assert place(run) == "write active", "the question barrier is judged by that note"

    def test_what_its_task_filed_is_stopped_as_a_child_and_not_by_the_person(self, stage: Stage, run: FlowRun) -> None:
        task = stage.claim().task
        child = tasks.file_task(cast.agent_chain(stage.board), stage.board, goal="Child", filed_by_task=task)
        flows.cancel_turn(stage.anna, run)
        assert Event.objects.get(task=child, kind="task.cancelled").cause == "parent_stop"

    def test_works_of_one_stay_are_cancelled_as_one(self, stage: Stage) -> None:
        run = stage.started(PAUSES)
        visit, other = fresh(run).current_visit, cast.filed(stage.board, stage.anna, "Other")
        assert visit is not None
        Task.objects.filter(pk=other.pk).update(visit=visit)
        Branch.objects.create(visit=visit, role=Branch.Role.BRANCH, key="other", position=0, task=other)
        flows.cancel_turn(stage.anna, run)
        assert {cast.fresh(task).status for task in (other, step_task(run))} == {"cancelled"}
        assert Event.objects.filter(kind="task.cancelled", cause="user_cancel").count() == 2
        assert Event.objects.filter(kind="step.turn_cancelled").count() == 1


class TestRun:
    def test_run_task_and_questions_end_in_one_write(
        self, stage: Stage, run: FlowRun, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ticket = stage.claim().ticket
        visit = fresh(run).current_visit
        assert visit is not None
        people.open_hold(cast.agent_chain(stage.board), claim=ticket, kind="question", prompt="Which?")
        people.open_step_hold(stage.anna, visit, kind="confirm", prompt="Is it so?")
        monkeypatch.setattr(cancelling, "say", lambda *words: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            flows.cancel_run(stage.anna, fresh(run))
        assert (place(run), step_task(run).status) == ("write active", "in_progress")
        assert set(Hold.objects.values_list("state", flat=True)) == {"open"}
        monkeypatch.undo()
        flows.cancel_run(stage.anna, fresh(run))
        assert (place(run), step_task(run).status) == ("write cancelled", "cancelled")
        assert sorted(Hold.objects.values_list("state", "closed_reason")) == [
            ("discarded", "Anna cancelled the run."),
            ("discarded", "the run was cancelled."),
        ]

    def test_its_stop_follows_and_completes_no_turn(self, stage: Stage, run: FlowRun) -> None:
        task = stage.claim().task
        flows.cancel_run(stage.anna, fresh(run))
        assert stop_of(task).data["cause"] == "run_cancel"
        paying.pay(stop_of(task).pk)
        assert place(run) == "write cancelled"
        assert not Debt.objects.exists()

    def test_the_runs_that_it_had_called_are_cancelled_all_the_way_down(self, stage: Stage, run: FlowRun) -> None:
        child, grandchild, done = (stage.started(PAUSES) for _ in range(3))
        FlowRun.objects.filter(pk=done.pk).update(status="completed", completed_at=Now())
        for each, parent in ((child, run), (grandchild, child), (done, run)):
            FlowRun.objects.filter(pk=each.pk).update(called_by=Visit.objects.get(run=parent))
        flows.cancel_run(stage.anna, fresh(run))
        assert [place(each) for each in (child, grandchild, done)] == [
            "write cancelled",
            "write cancelled",
            "write completed",
        ]
        assert fresh(child).error == "“Completes 1”, which called it, was cancelled."
        causes = Event.objects.filter(kind="run.cancelled").order_by("pk").values_list("run", "cause")
        assert list(causes) == [(run.pk, "run_cancel"), (child.pk, "parent_stop"), (grandchild.pk, "parent_stop")]
        assert not Debt.objects.exists()

    def test_works_that_were_open_are_over(self, stage: Stage, run: FlowRun) -> None:
        visit = fresh(run).current_visit
        assert visit is not None
        Branch.objects.create(visit=visit, role=Branch.Role.BRANCH, key="one", position=0)
        flows.cancel_run(stage.anna, fresh(run))
        assert Branch.objects.get().outcome == "cancelled"

    def test_two_at_once_cancel_it_once(self, stage: Stage, run: FlowRun) -> None:
        stage.claim()
        at_once(*[lambda: flows.cancel_run(stage.anna, fresh(run))] * 5)
        assert Event.objects.filter(run=run, kind="run.cancelled").count() == 1
        assert Event.objects.filter(kind="task.cancelled").count() == 1

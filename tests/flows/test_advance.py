"""`advance` applies each operation once, ignores older visits, and one of two at once moves (spec: 05 section 2)."""

from __future__ import annotations

from typing import Any

import pytest

from boards import errors, flows, people, tasks
from boards.actors import service
from boards.debts import paying
from boards.models import Debt, Event, FlowOperation, FlowRun, StepChange, Task
from boards.states import Phase
from tests import cast
from tests.flows.cast import Stage, fresh, history, open_hold, place, settle, step_task
from tests.racing import at_once

pytestmark = pytest.mark.django_db


def advance(stage: Stage, run: FlowRun, visit_id: int, operation: str, **facts: Any) -> str:
    chain = service("flows", stage.space.pk)
    return flows.advance(run.pk, visit_id, "task_ended", operation_id=operation, chain=chain, **facts)


def ended(stage: Stage, run: FlowRun) -> dict[str, Any]:
    """The step's task completed, its debt not paid yet; what the debt would say."""
    got = stage.claim()
    tasks.complete(cast.agent_chain(stage.board), got.task, {"text": "Words"}, claim=got.ticket)
    return {"task_key": got.task.pk, "ending": "completed"}


def test_an_operation_applied_twice_does_nothing(stage: Stage) -> None:
    run = stage.started()
    visit = fresh(run).current_visit_id
    assert visit is not None
    facts = ended(stage, run)
    assert advance(stage, run, visit, "op-1", **facts) == "moved to approve"
    before = fresh(run).revision
    assert advance(stage, run, visit, "op-1", **facts) == "repeated"
    assert fresh(run).revision == before
    assert FlowOperation.objects.get(run=run, operation_id="op-1").outcome == "moved to approve"


def test_the_ending_leaves_the_advance_as_a_debt_that_can_be_paid_late_and_once(stage: Stage) -> None:
    run = stage.started()
    ended(stage, run)
    assert place(run) == "write active", "the ending itself never advances the run"
    debt = Debt.objects.get(kind="flow_advance")
    assert paying.pay(debt.pk) is paying.Paid.PAID
    assert paying.pay(debt.pk) is paying.Paid.GONE
    assert place(run) == "approve active"
    assert FlowOperation.objects.filter(operation_id=debt.unique_key).count() == 1


def test_a_trigger_of_an_older_visit_is_recorded_and_ignored(stage: Stage) -> None:
    run = stage.started()
    first = fresh(run).current_visit_id
    assert first is not None
    old = step_task(run)
    stage.complete()
    stage.answer(run, "reject", "Again.")
    assert place(run) == "write active"
    outcome = advance(stage, run, first, "late", task_key=old.pk, ending="completed")
    assert outcome == "older_visit"
    assert place(run) == "write active"
    assert FlowOperation.objects.get(operation_id="late").outcome == "older_visit"


def test_an_ending_that_a_retry_overtook_changes_nothing(stage: Stage) -> None:
    run = stage.started()
    visit = fresh(run).current_visit_id
    assert visit is not None
    got = stage.claim()
    tasks.fail(cast.agent_chain(stage.board), got.task, "No ink.", claim=got.ticket)
    Debt.objects.filter(kind="flow_advance").delete()  # not paid before the retry
    tasks.retry(stage.anna, got.task)
    assert advance(stage, run, visit, "late", task_key=got.task.pk, ending="errored") == "overtaken"
    assert place(run) == "write active"
    stage.complete()
    assert place(run) == "approve active"


def test_every_operation_says_what_came_of_it(stage: Stage) -> None:
    run = stage.started()
    stage.complete()
    stage.answer(run, "approve")
    told = list(FlowOperation.objects.filter(run=run).order_by("pk").values_list("trigger", "outcome"))
    assert told == [("task_ended", "moved to approve"), ("hold_closed", "moved to read")]


GATED = """
key: gated
name: Gated
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go., auto_advance_requires_signal: true}
  - {key: read, name: Read, kind: agent, assignee: reader, prompt: Read.}
  - {key: done, name: Done}
"""


def signal(stage: Stage, run: FlowRun, summary: str) -> bool:
    visit = fresh(run).current_visit_id
    assert visit is not None
    return flows.signal(cast.agent_chain(stage.board), visit, summary)


def test_a_turn_that_ends_without_its_signal_waits_for_a_person(stage: Stage) -> None:
    run = stage.started(GATED)
    stage.complete()
    assert place(run) == "write active"
    visit = fresh(run).current_visit
    assert visit is not None
    assert (visit.phase, visit.output) == (Phase.WAITING, {"text": "Words"})
    flows.mark_complete(stage.anna, fresh(run))
    assert place(run) == "read active"
    assert history(run)[-1] == "write > read (on_turn_complete, Anna)"


def test_the_first_signal_counts_and_history_carries_it(stage: Stage) -> None:
    run = stage.started(GATED)
    assert signal(stage, run, "All written")
    assert not signal(stage, run, "Said twice")
    stage.complete()
    assert place(run) == "read active"
    change = StepChange.objects.filter(run=run).last()
    assert change is not None
    assert change.signal["summary"] == "All written"
    assert fresh(run).signal is None, "cleared by the move"


def test_a_message_from_a_person_discards_the_signal(stage: Stage) -> None:
    run = stage.started(GATED)
    signal(stage, run, "All written")
    visit = fresh(run).current_visit_id
    assert visit is not None
    flows.advance(run.pk, visit, "turn_start", operation_id="m1", chain=stage.anna)
    assert fresh(run).signal is None
    stage.complete()
    assert place(run) == "write active"


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    """Two connections, one run."""

    def test_two_advances_of_one_turn_move_it_once(self, stage: Stage) -> None:
        run = stage.started()
        visit = fresh(run).current_visit_id
        assert visit is not None
        got = stage.claim()
        # Ended with its debt held back, so that both advances are ours.
        Task.objects.filter(pk=got.task.pk).update(visit=None)
        tasks.complete(cast.agent_chain(stage.board), got.task, {"text": "Words"}, claim=got.ticket)
        facts = {"task_key": got.task.pk, "ending": "completed"}
        outcomes = at_once(*[lambda n=n: advance(stage, run, visit, f"op-{n}", **facts) for n in range(6)])
        assert sorted(outcomes) == ["moved to approve"] + ["older_visit"] * 5
        assert StepChange.objects.filter(run=run, to_step="approve").count() == 1

    def test_one_operation_from_six_sides_is_applied_once(self, stage: Stage) -> None:
        run = stage.started()
        visit = fresh(run).current_visit_id
        assert visit is not None
        got = stage.claim()
        Task.objects.filter(pk=got.task.pk).update(visit=None)
        tasks.complete(cast.agent_chain(stage.board), got.task, {"text": "Words"}, claim=got.ticket)
        facts = {"task_key": got.task.pk, "ending": "completed"}
        outcomes = at_once(*[lambda: advance(stage, run, visit, "op", **facts)] * 6)
        assert sorted(outcomes) == ["moved to approve"] + ["repeated"] * 5

    def test_of_twenty_answers_at_once_one_counts(self, stage: Stage) -> None:
        run = stage.started()
        stage.complete()
        hold = open_hold(run)
        people_of = [cast.chain_of(cast.make_member(stage.space, f"member{n}")) for n in range(20)]

        def answer(n: int) -> Any:
            choice = "approve" if n % 2 else "reject"
            return people.answer_hold(people_of[n], hold.pk, choice=choice, shown_hash=hold.draft_hash)

        answers = at_once(*[lambda n=n: answer(n) for n in range(20)])
        refused = [each for each in answers if isinstance(each, errors.AlreadyAnswered)]
        assert len(refused) == 19
        assert all("this at" in each.sentence for each in refused)
        settle()
        assert StepChange.objects.filter(run=run, from_step="approve").count() == 1
        assert Event.objects.filter(run=run, kind="hold.answered").count() == 1

    def test_an_approval_and_a_cancel_of_the_run_at_once_leave_one_outcome(self, stage: Stage) -> None:
        for _ in range(5):
            run = stage.started()
            stage.complete()
            hold = open_hold(run)
            answered, cancelled = at_once(
                lambda hold=hold: people.answer_hold(stage.anna, hold.pk, choice="approve", shown_hash=hold.draft_hash),
                lambda run=run: flows.cancel_run(stage.olga, fresh(run)),
            )
            settle()
            assert isinstance(cancelled, FlowRun)
            assert fresh(run).status == "cancelled"
            open_tasks = Task.objects.filter(visit__run=run).exclude(status__in=["completed", "cancelled"])
            assert not open_tasks.exists(), "no new step after the cancel"
            if isinstance(answered, errors.AlreadyAnswered):
                assert "cancelled" in answered.sentence


def test_a_withdrawn_turn_fails_its_step_once_its_worker_has_stopped(stage: Stage) -> None:
    run = stage.started()
    got = stage.claim()
    tasks.withdraw(service("flows", stage.space.pk), got.task)
    settle()
    assert place(run) == "write active", "the stop is still owed"
    paying.pay(Debt.objects.get(kind="session_stop").pk)
    settle()
    row = fresh(run)
    assert (place(run), row.error) == ("write failed", "The due time of Write passed, so its task was withdrawn.")
    assert row.current_visit is not None
    assert row.current_visit.phase == "failure"
    assert Event.objects.filter(run=run, kind="step.failed", cause="timeout").count() == 1
    assert not Debt.objects.exists()

"""What falls between the parts of a flow: an archive, a settling answer, a failure, a due time that meet."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import errors, flows, people, sweeping, tasks
from boards.debts import operating
from boards.models import Debt, FlowRun, Hold, Member, Task, Visit
from boards.queries.runs import find_run, run_page
from tests import cast
from tests.flows.cast import Stage, fresh, history, open_hold, place, settle
from tests.flows.kinds_cast import define, open_task, outcomes, started, work

pytestmark = pytest.mark.django_db

WRITE = "- {key: write, name: Write, kind: agent, assignee: writer, prompt: Go.}"
APPROVE_THEN_WRITE = f"- {{key: approve, name: Approve, kind: approval}}\n{WRITE}"


@pytest.fixture
def stage() -> Stage:
    return Stage()


def settled(hold: Hold) -> None:
    """The settle time of its answer is over."""
    Hold.objects.filter(pk=hold.pk).update(settles_at=Now() - timedelta(seconds=1))
    Debt.objects.filter(unique_key__startswith=f"flow_advance:hold:{hold.pk}:").update(due_at=Now())
    settle()


def answered_slowly(stage: Stage, run: FlowRun, choice: str = "approve") -> Hold:
    people.set_settle_time(stage.anna, 10)
    hold = open_hold(run)
    return people.answer_hold(stage.anna, hold.pk, choice=choice, shown_hash=hold.draft_hash)


def no_tasks_are_open() -> bool:
    return not Task.objects.filter(status__in=["pending", "in_progress"]).exists()


class TestAStepThatCannotBegin:
    CALLS_NOWHERE = "{key: second, name: Second, kind: call, flow: nowhere, events: {on_enter: [reset_context]}}"

    def test_behind_a_reset_of_the_context_it_fails_the_step(self, stage: Stage) -> None:
        run = started(stage, f"{WRITE}\n- {self.CALLS_NOWHERE}")
        work(stage, "Write")
        assert place(run) == "second failed"

    def test_as_the_first_step_it_makes_a_failed_run(self, stage: Stage) -> None:
        run = started(stage, f"- {self.CALLS_NOWHERE}")
        assert place(run) == "second failed"

    def test_of_on_failure_leaves_no_row_that_never_ends(self, stage: Stage) -> None:
        run = started(
            stage,
            """
- key: write
  name: Write
  kind: agent
  assignee: writer
  prompt: Go.
  on_failure: {steps: [{key: tidy, name: Tidy, kind: approval, assignee: ghost}], then: fail}
""",
        )
        work(stage, "Write", fails="Boom")
        assert (place(run), outcomes(run)) == ("write failed", {})


def test_one_wait_that_cannot_end_keeps_no_other_from_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = "- {key: pause, name: Pause, kind: wait, duration_ms: 3600000}"
    bad, good = started(stage, wait, key="bad"), started(stage, wait, key="good")
    Visit.objects.filter(run=bad).update(due_at=Now() - timedelta(seconds=9))
    Visit.objects.filter(run=good).update(due_at=Now() - timedelta(seconds=1))
    advance = flows.advance

    def poisoned(run_id: int, *given: object, **named: object) -> str:
        if run_id == bad.pk:
            raise RuntimeError("poison")
        return advance(run_id, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(flows, "advance", poisoned)
    assert sweeping.sweep_once().failed == ["waits of runs ended"]
    assert place(good) == "done completed"


class TestAnAnswerThatSettles:
    FED = """
- key: approve
  name: Approve
  kind: approval
  is_start_step: true
  events: {on_turn_complete: [{type: move_to_previous, when: output.approved}]}
- {key: build, name: Build, kind: agent, assignee: writer, prompt: Go., wip_limit: 1, pull_from: approve}
"""

    @pytest.mark.parametrize("choice", ["reject", "approve"])
    def test_is_not_passed_by_being_pulled_on(self, stage: Stage, choice: str) -> None:
        run = started(stage, self.FED)
        answered_slowly(stage, run, choice)
        sweeping.sweep_once()
        assert place(run) == "approve active"
        assert all("build" not in change for change in history(run))

    def test_is_kept_by_an_archived_run_that_stays(self, stage: Stage) -> None:
        run = started(stage, APPROVE_THEN_WRITE)
        hold = answered_slowly(stage, run)
        flows.archive(stage.anna, run)
        settled(hold)
        assert place(run) == "approve active"
        assert fresh(run).current_visit.output["approved"]
        flows.unarchive(stage.anna, run)
        assert (place(run), fresh(run).current_visit.phase) == ("approve active", "paused")

    def test_is_not_asked_anew_by_running_the_step_again(self, stage: Stage) -> None:
        run = started(stage, APPROVE_THEN_WRITE)
        answered_slowly(stage, run)
        with pytest.raises(flows.IllegalRunMove, match="settles"):
            flows.run_again(stage.anna, fresh(run))

    def test_after_an_undo_the_next_answer_counts_though_the_first_was_paid_by_hand(self, stage: Stage) -> None:
        run = started(
            stage,
            """
- key: write
  name: Write
  kind: agent
  assignee: writer
  prompt: Write.
  events: {on_turn_complete: [{type: move_to_next, requires_approval: true}]}
- {key: publish, name: Publish}
""",
        )
        work(stage, "Write")
        hold = answered_slowly(stage, run, "reject")
        operating.pay_again(stage.olga, Debt.objects.get(kind="flow_advance").pk)
        people.undo_hold(stage.anna, hold.pk)
        people.answer_hold(stage.anna, hold.pk, choice="approve", shown_hash=hold.draft_hash)
        settled(hold)
        assert place(run) == "publish active"

    @pytest.mark.parametrize("end", ["another branch fails", "the turn is cancelled"])
    def test_is_not_taken_back_once_its_branch_is_over(self, stage: Stage, end: str) -> None:
        run = started(
            stage,
            """
- key: both
  name: Both
  kind: parallel
  branches:
    - {key: ok, name: Ok, kind: approval}
    - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go.}
""",
        )
        hold = answered_slowly(stage, run)
        if end == "another branch fails":
            work(stage, "Write", fails="Boom")
        else:
            flows.cancel_turn(stage.anna, fresh(run))
            settle()
        with pytest.raises(errors.AlreadyAnswered):
            people.undo_hold(stage.anna, hold.pk)


class TestVotes:
    STEPS = """
- key: write
  name: Write
  kind: agent
  assignee: writer
  prompt: Write.
  events: {on_turn_complete: [{type: move_to_step, step: publish, quorum: {role: member, threshold: "n_approve:N"}}]}
- {key: publish, name: Publish, kind: agent, assignee: writer, prompt: Publish.}
"""

    def test_one_that_was_taken_back_counts_no_more(self, stage: Stage) -> None:
        ben, cleo = (cast.chain_of(cast.make_member(stage.space, name)) for name in ("ben", "cleo"))
        run = started(stage, self.STEPS.replace(":N", ":2"))
        work(stage, "Write")
        hold = open_hold(run)
        for who in (stage.anna, ben):
            people.set_settle_time(who, 10)
            people.answer_hold(who, hold.pk, choice="approve", shown_hash=hold.draft_hash)
        people.undo_hold(ben, hold.pk)
        people.answer_hold(cleo, hold.pk, choice="reject", shown_hash=hold.draft_hash)
        hold.refresh_from_db()
        assert hold.state == "open"

    def test_the_one_that_decided_is_answered_again_under_its_key(self, stage: Stage) -> None:
        run = started(stage, self.STEPS.replace(":N", ":1"))
        work(stage, "Write")
        hold = open_hold(run)
        said = {"choice": "approve", "shown_hash": hold.draft_hash, "idempotency_key": "k1"}
        first = people.answer_hold(stage.anna, hold.pk, **said)
        assert people.answer_hold(stage.anna, hold.pk, **said).answer == first.answer
        with pytest.raises(errors.AlreadyAnswered):
            people.answer_hold(stage.anna, hold.pk, **said | {"choice": "reject"})


class TestTheArchive:
    def test_a_wait_whose_time_comes_goes_on_when_the_run_is_taken_out(self, stage: Stage) -> None:
        run = started(stage, f"- {{key: pause, name: Pause, kind: wait, duration_ms: 3600000}}\n{WRITE}")
        flows.archive(stage.anna, run)
        Visit.objects.filter(run=run).update(due_at=Now() - timedelta(seconds=1))
        sweeping.sweep_once()
        assert place(run) == "pause active"
        flows.unarchive(stage.anna, run)
        sweeping.sweep_once()
        assert place(run) == "write active"

    def test_ends_the_runs_that_it_called(self, stage: Stage) -> None:
        define(stage, "- {key: work, name: Work, kind: agent, assignee: writer, prompt: Go.}", key="other")
        run = started(stage, f"- {{key: sub, name: Sub, kind: call, flow: other}}\n{WRITE}")
        flows.archive(stage.anna, run)
        settle()
        assert FlowRun.objects.get(called_by__run=run).status == "cancelled"
        assert (place(run), no_tasks_are_open()) == ("sub active", True)

    def test_runs_no_failure_steps(self, stage: Stage) -> None:
        run = started(
            stage,
            """
- key: build
  name: Build
  kind: stage
  assignee: writer
  tasks: [{key: a, goal: A}]
  on_failure: {steps: [{key: tidy, name: Tidy, kind: agent, assignee: writer, prompt: Tidy.}], then: fail}
""",
        )
        flows.archive(stage.anna, run)
        settle()
        assert (place(run), no_tasks_are_open()) == ("build active", True)

    def test_a_task_that_is_retried_from_its_own_page_moves_nothing(self, stage: Stage) -> None:
        run = started(stage, f"{WRITE}\n{WRITE.replace('write', 'more').replace('Write', 'More')}")
        task = open_task("Write")
        flows.archive(stage.anna, run)
        settle()
        tasks.retry(stage.anna, Task.objects.get(pk=task.pk))
        work(stage, "Write")
        assert place(run) == "write active"

    def test_by_itself_takes_no_run_that_waits_for_one_it_called(self, stage: Stage) -> None:
        define(stage, "- {key: work, name: Work, kind: agent, assignee: writer, prompt: Go.}", key="other")
        run = started(stage, "- {key: sub, name: Sub, kind: call, flow: other, auto_archive_after_hours: 1}")
        FlowRun.objects.filter(pk=run.pk).update(stands_since=Now() - timedelta(hours=2))
        flows.archive_due(200)
        assert fresh(run).archived_at is None


class TestFailures:
    TIDY = """
- key: write
  name: Write
  kind: agent
  assignee: writer
  prompt: Go.
  timeout_ms: 3600000
  on_failure: {steps: [{key: tidy, name: Tidy, kind: agent, assignee: writer, prompt: Tidy.}], then: THEN}
- {key: next, name: Next}
"""

    def test_the_step_is_not_run_again_beside_its_failure_steps(self, stage: Stage) -> None:
        run = started(stage, self.TIDY.replace("THEN", "fail"))
        work(stage, "Write", fails="Boom")
        with pytest.raises(flows.IllegalRunMove):
            flows.run_again(stage.anna, fresh(run))
        assert fresh(run).current_visit.phase == "failure"

    def test_one_that_was_seen_to_does_not_fail_again_at_its_due_time(self, stage: Stage) -> None:
        run = started(stage, self.TIDY.replace("THEN", "continue"), style="board")
        work(stage, "Write", fails="Boom")
        work(stage, "Tidy")
        before = (place(run), fresh(run).current_visit.phase)
        Visit.objects.filter(run=run).update(due_at=Now() - timedelta(seconds=1))
        sweeping.sweep_once()
        settle()
        assert (place(run), fresh(run).current_visit.phase) == before

    def test_a_cancel_of_what_is_not_required_pauses_the_stage_too(self, stage: Stage) -> None:
        run = started(
            stage,
            """
- key: build
  name: Build
  kind: stage
  assignee: writer
  tasks: [{key: a, goal: A}, {key: b, goal: B, required: false}]
- {key: next, name: Next}
""",
        )
        work(stage, "Build, a")
        flows.cancel_turn(stage.anna, fresh(run))
        settle()
        assert (place(run), fresh(run).current_visit.phase) == ("build active", "paused")

    def test_a_branch_that_asks_is_over_with_the_step(self, stage: Stage) -> None:
        run = started(
            stage,
            """
- key: both
  name: Both
  kind: parallel
  timeout_ms: 3600000
  branches:
    - {key: ok, name: Ok, kind: approval}
    - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go.}
""",
        )
        work(stage, "Write")
        Hold.objects.filter(visit__run=run).update(due_at=Now() - timedelta(seconds=1))
        sweeping.sweep_once()
        settle()
        assert place(run) == "both failed"

    def test_a_branch_that_is_retried_does_not_make_the_others_good(self, stage: Stage) -> None:
        run = started(
            stage,
            """
- key: build
  name: Build
  kind: parallel
  branches:
    - {key: a, name: A, kind: agent, assignee: writer, prompt: A.}
    - {key: b, name: B, kind: agent, assignee: writer, prompt: B.}
- {key: next, name: Next}
""",
        )
        failed = work(stage, "A", fails="Boom")
        tasks.retry(stage.anna, Task.objects.get(pk=failed.pk))
        work(stage, "A")
        assert (place(run), fresh(run).current_visit.phase) == ("build failed", "failure")


def test_the_run_page_says_that_an_answer_settles_and_offers_nothing_meanwhile(stage: Stage) -> None:
    run = started(stage, APPROVE_THEN_WRITE)
    hold = answered_slowly(stage, run)
    member = Member.objects.get(space=stage.space, user=stage.anna.user_id)
    page = run_page(find_run(member, "kinds", run.number), member)
    assert (page.settling, page.state_words) == (True, "The answer settles")
    assert "settles" in page.act["run_again"].reason
    settled(hold)
    assert not run_page(find_run(member, "kinds", run.number), member).settling

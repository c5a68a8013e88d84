"""Steps with a limit: who gets in, who waits and where, and who is let in next (spec: 05 section 5)."""

from __future__ import annotations

import textwrap

import pytest

from boards import flows, sweeping
from boards.errors import InvalidInput
from boards.flows import StepFull, wip
from boards.models import Debt, Event, FlowRun, StepChange, Task
from tests.flows.cast import Stage, fresh, history, place, settle, step_task
from tests.flows.wip_cast import DESK, FED, LINE, queued, standing

pytestmark = pytest.mark.django_db


def start(stage: Stage, text: str, *names: str, step: str = "", priority: int = 0) -> list[FlowRun]:
    flow = stage.flow(text)
    made = [flows.start(stage.anna, flow, {}, name, step=step, priority=priority) for name in names]
    settle()
    return [fresh(run) for run in made]


def with_limit(text: str, old: str, new: str) -> str:
    assert old in text
    return textwrap.dedent(text).replace(old, new)


class TestNewRuns:
    def test_a_new_run_takes_a_place_and_the_next_one_queues(self, stage: Stage) -> None:
        first, second = start(stage, DESK, "First", "Second")
        assert (standing(first, "write"), queued(first, "write")) == (["First"], ["Second"])
        assert second.current_visit is None
        assert history(second) == [" > write (start, Anna)"]
        assert Event.objects.filter(run=second, kind="run.queued").count() == 1
        assert second.data == {}, "nothing is run on entry before it is in"

    def test_a_queued_run_files_no_task(self, stage: Stage) -> None:
        start(stage, LINE, "First", "Second")
        assert Task.objects.count() == 1

    def test_with_a_feeder_it_waits_there(self, stage: Stage) -> None:
        first, second = start(stage, FED, "First", "Second")
        assert (standing(first, "write"), standing(first, "backlog")) == (["First"], ["Second"])
        assert place(second) == "backlog active"

    def test_a_full_feeder_too_is_a_conflict_that_stores_nothing(self, stage: Stage) -> None:
        first, *_ = start(stage, FED, "First", "Second", "Third")
        before = FlowRun.objects.count(), StepChange.objects.count(), Event.objects.count()
        with pytest.raises(StepFull, match="Write is full, and so is Backlog") as refused:
            flows.start(stage.anna, first.flow, {}, "Fourth", idempotency_key="k")
        assert (refused.value.code, refused.value.http_status) == ("step_full", 409)
        assert (FlowRun.objects.count(), StepChange.objects.count(), Event.objects.count()) == before
        flows.move(stage.anna, first, "review")
        settle()
        assert flows.start(stage.anna, first.flow, {}, "Fourth", idempotency_key="k").name == "Fourth"

    def test_a_run_may_begin_in_another_step(self, stage: Stage) -> None:
        (run,) = start(stage, DESK, "First", step="review")
        assert place(run) == "review active"

    @pytest.mark.parametrize(("step", "words"), [("done", "over at once"), ("gone", "no such step")])
    def test_not_every_step_begins_a_run(self, stage: Stage, step: str, words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            start(stage, DESK, "First", step=step)
        assert not FlowRun.objects.exists()


class TestMoves:
    def test_a_move_never_fails_for_capacity(self, stage: Stage) -> None:
        first, second = start(stage, DESK, "First", step="write") + start(stage, DESK, "Second", step="backlog")
        moved = flows.move(stage.anna, second, "write")
        assert (moved.queued_step, moved.current_visit, moved.step_key) == ("write", None, "")
        assert queued(first, "write") == ["Second"]
        assert history(second)[1:] == ["backlog > write (manual, Anna)"]

    def test_on_exit_runs_at_once_and_on_enter_with_the_place_each_once(self, stage: Stage) -> None:
        text = with_limit(DESK, "{key: review, name: Review}", "{key: review, name: Review, wip_limit: 1}")
        first, second = start(stage, text, "First", step="write") + start(stage, text, "Second", step="review")
        flows.move(stage.anna, first, "review")
        settle()
        assert fresh(first).data == {"entered": "w", "left": "w"}
        assert queued(first, "review") == ["First"]
        flows.move(stage.anna, fresh(first), "write")
        settle()
        assert fresh(first).data == {"entered": "ww", "left": "w"}, "it had not been in, so it does not leave"
        flows.move(stage.anna, fresh(first), "review")
        flows.move(stage.anna, second, "backlog")
        settle()
        assert place(first) == "review active"
        assert fresh(first).data == {"entered": "ww", "left": "ww"}

    def test_a_move_with_its_entry_left_out_is_let_in_without_it(self, stage: Stage) -> None:
        text = with_limit(
            DESK,
            "{key: backlog, name: Backlog}",
            "{key: backlog, name: Backlog, events: {on_turn_start: [move_to_next]}}",
        )
        first, second = start(stage, text, "First", step="write") + start(stage, text, "Second", step="backlog")
        visit = second.current_visit
        assert visit is not None
        flows.advance(second.pk, visit.pk, "turn_start", operation_id="message", chain=stage.anna)
        assert queued(first, "write") == ["Second"]
        flows.move(stage.anna, first, "review")
        settle()
        assert place(second) == "write active"
        assert fresh(second).data == {}

    def test_a_trigger_of_the_stay_that_was_left_is_ignored(self, stage: Stage) -> None:
        first, second = start(stage, DESK, "First", step="write") + start(stage, DESK, "Second", step="backlog")
        visit = second.current_visit
        assert visit is not None
        flows.move(stage.anna, second, "write")
        outcome = flows.advance(second.pk, visit.pk, "mark_complete", operation_id="late", chain=stage.anna)
        assert outcome == "older_visit"
        assert queued(first, "write") == ["Second"]

    def test_a_queued_run_says_what_it_waits_for_and_can_be_cancelled(self, stage: Stage) -> None:
        _, second = start(stage, DESK, "First", "Second")
        with pytest.raises(flows.IllegalRunMove, match="still waits for a place"):
            flows.mark_complete(stage.anna, second)
        flows.cancel_run(stage.anna, second)
        now = fresh(second)
        assert (now.status, now.queued_step, now.queued_at, now.step_key) == ("cancelled", "", None, "write")

    def test_a_failed_run_keeps_its_place_and_a_cancelled_one_gives_it_up(self, stage: Stage) -> None:
        first, second = start(stage, LINE, "First", "Second")
        stage.fail("No ink.")
        assert (standing(first, "write"), queued(first, "write")) == (["First"], ["Second"])
        flows.run_again(stage.anna, fresh(first))
        assert standing(first, "write") == ["First"]
        flows.cancel_run(stage.anna, fresh(first))
        settle()
        assert (standing(first, "write"), queued(first, "write")) == (["Second"], [])
        assert step_task(second).status == "pending"

    def test_entering_the_same_step_again_keeps_the_place(self, stage: Stage) -> None:
        first, _ = start(stage, DESK, "First", "Second")
        flows.run_again(stage.anna, first)
        assert (place(first), queued(first, "write")) == ("write active", ["Second"])

    def test_a_run_that_is_marked_complete_where_nothing_follows_gives_its_place_up(self, stage: Stage) -> None:
        text = """
        {key: single, name: Single, style: board, steps: [{key: write, name: Write, wip_limit: 1}]}
        """
        first, second = start(stage, text, "First", "Second")
        flows.mark_complete(stage.anna, first)
        settle()
        assert (place(first), place(second)) == ("write completed", "write active")


class TestPromotion:
    def test_a_place_that_comes_free_is_given_on_once(self, stage: Stage) -> None:
        first, second, third = start(stage, LINE, "First", "Second", "Third")
        stage.complete()
        assert place(first) == "done completed"
        assert (standing(first, "write"), queued(first, "write")) == (["Second"], ["Third"])
        assert history(second) == [" > write (start, Anna)", "write > write (queue_promotion, Line)"]
        assert Task.objects.filter(visit__run=second).count() == 1
        stage.complete()
        stage.complete()
        assert {place(run) for run in (first, second, third)} == {"done completed"}
        assert not Debt.objects.exists()

    def test_in_line_count_position_then_priority_then_time(self, stage: Stage) -> None:
        first, *_ = start(stage, DESK, "First", "Early", "Late")
        start(stage, DESK, "Urgent", priority=5)
        (put,) = start(stage, DESK, "Put")
        assert queued(first, "write") == ["Urgent", "Early", "Late", "Put"]
        flows.move(stage.anna, put, "write", before=FlowRun.objects.get(name="Urgent").pk)
        assert queued(first, "write") == ["Put", "Urgent", "Early", "Late"]
        for run in (first, put):
            flows.move(stage.anna, fresh(run), "review")
            settle()
        assert standing(first, "write") == ["Urgent"]

    def test_those_queued_in_the_step_come_before_those_in_the_feeder(self, stage: Stage) -> None:
        first, fed, other = start(stage, FED, "First", "Fed", "Other")
        flows.move(stage.anna, other, "write")
        assert (standing(first, "backlog"), queued(first, "write")) == (["Fed"], ["Other"])
        flows.move(stage.anna, first, "review")
        settle()
        assert (standing(first, "write"), standing(first, "backlog")) == (["Other"], ["Fed"])
        flows.move(stage.anna, fresh(other), "review")
        settle()
        assert standing(first, "write") == ["Fed"]
        assert history(fed)[1:] == ["backlog > write (queue_promotion, Fed)"]

    def test_a_place_in_the_feeder_is_given_on_too(self, stage: Stage) -> None:
        first, _, _ = start(stage, FED, "First", "Second", "Third")
        flows.move(stage.anna, first, "backlog")
        settle()
        assert standing(first, "write") == ["Second"], "the first one was put back, so the next one is pulled"
        assert standing(first, "backlog") == ["Third", "First"]

    def test_a_card_that_is_put_back_is_not_pulled_at_once(self, stage: Stage) -> None:
        (first,) = start(stage, FED, "First")
        flows.move(stage.anna, first, "backlog")
        settle()
        assert place(first) == "backlog active"
        (second,) = start(stage, FED, "Second", step="review")
        flows.move(stage.anna, second, "write")
        flows.move(stage.anna, fresh(second), "review")
        settle()
        assert place(first) == "write active", "a place that comes free later is a new occasion"

    def test_what_begins_to_wait_in_the_feeder_of_an_open_step_is_pulled(self, stage: Stage) -> None:
        (run,) = start(stage, FED, "First", step="backlog")
        assert place(run) == "write active"

    def test_a_card_is_not_pulled_through_what_it_still_owes_its_step(self, stage: Stage) -> None:
        text = """
        key: gated
        name: Gated
        style: board
        steps:
          - {key: draft, name: Draft, kind: agent, assignee: writer, prompt: Go.}
          - {key: approve, name: Approve, kind: approval}
          - {key: write, name: Write, wip_limit: 1, pull_from: draft}
          - {key: print, name: Print, wip_limit: 1, pull_from: approve}
          - {key: done, name: Done}
        """
        drafting, asking = start(stage, text, "Drafting") + start(stage, text, "Asking", step="approve")
        assert (place(drafting), place(asking)) == ("draft active", "approve active")
        flows.cancel_turn(stage.anna, drafting)
        settle()
        sweeping.sweep_once()
        assert place(drafting) == "draft active", "a stopped turn waits for a person"
        flows.run_again(stage.anna, fresh(drafting))
        stage.complete()
        assert place(drafting) == "write active"
        sweeping.sweep_once()
        assert place(asking) == "approve active", "no gate opens by itself"
        stage.answer(asking, "approve")
        assert place(asking) == "print active"

    def test_a_card_whose_move_a_person_turned_down_is_not_pulled(self, stage: Stage) -> None:
        text = """
        key: asked
        name: Asked
        style: board
        steps:
          - key: draft
            name: Draft
            kind: agent
            assignee: writer
            prompt: Go.
            events: {on_turn_complete: [{type: move_to_next, requires_approval: true}]}
          - {key: write, name: Write, wip_limit: 1, pull_from: draft}
          - {key: done, name: Done}
        """
        (run,) = start(stage, text, "First")
        stage.complete()
        sweeping.sweep_once()
        assert place(run) == "draft active", "the question is open"
        stage.answer(run, "reject", "Not yet.")
        sweeping.sweep_once()
        assert place(run) == "draft active"

    def test_a_card_whose_signal_is_missing_is_not_pulled(self, stage: Stage) -> None:
        text = """
        key: told
        name: Told
        style: board
        steps:
          - {key: draft, name: Draft, kind: agent, assignee: writer, prompt: Go., auto_advance_requires_signal: true}
          - {key: write, name: Write, wip_limit: 1, pull_from: draft}
          - {key: done, name: Done}
        """
        (run,) = start(stage, text, "First")
        stage.complete()
        sweeping.sweep_once()
        assert place(run) == "draft active"

    def test_a_promotion_whose_exit_event_fails_leaves_the_card_and_lets_the_next_one_in(self, stage: Stage) -> None:
        fails = '{on_exit: [{type: set_data, data: {n: "{{ run.number // (run.number - 2) }}"}}]}'
        backlog = "{key: backlog, name: Backlog, wip_limit: 2}"
        text = with_limit(FED, backlog, f"{{key: backlog, name: Backlog, events: {fails}}}")
        first, second, third = start(stage, text, "First", "Second", "Third")
        flows.move(stage.anna, first, "review")
        settle()
        assert (place(second), place(third)) == ("backlog failed", "write active")
        assert not Debt.objects.exists()


class TestVersions:
    def test_a_raised_limit_lets_in_as_many_as_have_a_place(self, stage: Stage) -> None:
        first, *_ = start(stage, DESK, "First", "Second", "Third", "Fourth")
        stage.flow(with_limit(DESK, "wip_limit: 1", "wip_limit: 3"))
        settle()
        assert (standing(first, "write"), queued(first, "write")) == (["First", "Second", "Third"], ["Fourth"])

    def test_the_newest_limit_holds_for_runs_of_every_version(self, stage: Stage) -> None:
        first, second = start(stage, with_limit(DESK, "wip_limit: 1", "wip_limit: 2"), "First", "Second")
        (third,) = start(stage, DESK, "Third")
        assert third.version_id != first.version_id
        flows.move(stage.anna, first, "review")
        settle()
        assert (standing(first, "write"), queued(first, "write")) == (["Second"], ["Third"])
        flows.move(stage.anna, second, "review")
        settle()
        assert standing(first, "write") == ["Third"]

    @pytest.mark.parametrize(
        ("old", "new"),
        [("    wip_limit: 1\n", ""), ("key: write", "key: compose")],
        ids=["no limit any more", "no such step any more"],
    )
    def test_where_no_limit_is_left_nobody_waits(self, stage: Stage, old: str, new: str) -> None:
        first, *_ = start(stage, DESK, "First", "Second", "Third")
        stage.flow(with_limit(DESK, old, new))
        settle()
        assert (standing(first, "write"), queued(first, "write")) == (["First", "Second", "Third"], [])

    def test_a_run_whose_version_lacks_the_step_is_not_pulled_into_it(self, stage: Stage) -> None:
        (old,) = start(stage, with_limit(FED, "key: write", "key: compose"), "Old", step="review")
        stage.flow(FED)
        flows.move(stage.anna, old, "backlog")
        settle()
        sweeping.sweep_once()
        assert place(old) == "backlog active"


class TestTheSweeper:
    def test_it_lets_in_whoever_was_forgotten(self, stage: Stage) -> None:
        first, second, third = start(stage, FED, "First", "Second", "Third")
        flows.move(stage.anna, third, "write")
        settle()
        # As a restored database may hold it: the place is free and nothing is owed.
        FlowRun.objects.filter(pk=first.pk).update(step_key="review")
        assert sweeping.sweep_once().done["runs let into their step"] == 1
        assert place(third) == "write active"
        FlowRun.objects.filter(pk=third.pk).update(step_key="review")
        assert sweeping.sweep_once().done["runs let into their step"] == 1
        assert place(second) == "write active"
        assert sweeping.sweep_once().done["runs let into their step"] == 0

    def test_full_steps_cost_it_one_question_for_all(self, stage: Stage, django_assert_num_queries) -> None:
        start(stage, DESK, "First", "Second")
        start(stage, LINE, "First", "Second")
        with django_assert_num_queries(1):
            assert flows.promote_waiting(200) == 0


def test_every_occasion_owes_its_own_try(stage: Stage) -> None:
    first, _ = start(stage, DESK, "First", "Second")
    wip.owe_left(first, "write")
    wip.owe_left(first, "review")
    assert Debt.objects.filter(kind="run_promote").count() == 1, "a step without a limit owes nothing"

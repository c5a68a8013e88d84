"""A person skips a step, completes it by hand, or runs again from an earlier one (spec: 08 "Run page")."""

from __future__ import annotations

import pytest

from boards import errors, flows
from boards.models import Task, TranscriptItem
from tests import cast
from tests.flows.cast import Stage, fresh, history, place, settle, step_task
from tests.flows.kinds_cast import answer, events, output, started, work

pytestmark = pytest.mark.django_db

STEPS = """
- {key: write, name: Write, kind: agent, assignee: writer, prompt: Write.}
- {key: read, name: Read, kind: agent, assignee: reader, prompt: "Read {{ steps.write.output.text or 'nothing' }}."}
- {key: ask, name: Ask, kind: approval, prompt: "Fine?"}
"""


class TestSkip:
    def test_the_run_goes_on_without_the_work_and_says_why(self, stage: Stage) -> None:
        run = started(stage, STEPS.replace("steps.write.output.text", "steps.write.error"))
        work(stage, "Write", fails="No ink.")
        flows.skip_step(stage.anna, fresh(run), "We have one already.")
        settle()
        assert place(run) == "read active"
        visit = run.visits.get(step_key="write")
        assert visit.error == "Anna skipped Write: We have one already. It had failed: No ink."
        assert history(run)[-1] == "write > read (manual, Anna)"
        assert events(run, "step.skipped")[0].data["text"] == "We have one already."
        line = "Anna skipped Write: We have one already."
        assert TranscriptItem.objects.filter(session=run.session_id, text=line).exists()

    def test_a_reason_is_needed(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        work(stage, "Write", fails="No ink.")
        with pytest.raises(errors.InvalidInput):
            flows.skip_step(stage.anna, fresh(run), "  ")
        assert place(run) == "write failed"

    def test_a_step_that_works_or_asks_is_not_skipped(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        with pytest.raises(flows.IllegalRunMove, match="Its task is ready"):
            flows.skip_step(stage.anna, fresh(run), "No.")
        work(stage, "Write")
        work(stage, "Read", who=cast.READER)
        with pytest.raises(flows.IllegalRunMove, match="Only an answer completes this step"):
            flows.skip_step(stage.anna, fresh(run), "No.")
        assert place(run) == "ask active"

    def test_behind_the_last_step_the_run_is_complete(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        flows.move(stage.anna, fresh(run), "done")
        assert fresh(run).status == "completed"
        with pytest.raises(flows.IllegalRunMove, match="The run is completed"):
            flows.skip_step(stage.anna, fresh(run), "No.")

    def test_a_step_with_branches_is_skipped_whole(self, stage: Stage) -> None:
        steps = """
        - key: both
          name: Both
          kind: parallel
          branches:
            - {key: a, kind: agent, assignee: writer, prompt: A.}
            - {key: b, kind: agent, assignee: reader, prompt: B.}
        """
        run = started(stage, steps)
        work(stage, "a", fails="No.")
        flows.skip_step(stage.anna, fresh(run), "Not today.")
        settle()
        assert fresh(run).status == "completed"
        assert set(Task.objects.values_list("status", flat=True)) == {"errored", "cancelled"}


class TestByHand:
    def test_what_a_person_hands_in_is_the_steps_output(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        work(stage, "Write", fails="No ink.")
        flows.complete_by_hand(stage.anna, fresh(run), {"text": "by hand"})
        settle()
        assert (place(run), output(run, "write")) == ("read active", {"text": "by hand"})
        assert step_task(run).goal == "Read by hand."
        assert len(events(run, "step.completed_by_hand")) == 1

    def test_a_transition_that_asks_still_asks(self, stage: Stage) -> None:
        steps = """
        - key: write
          name: Write
          kind: agent
          assignee: writer
          prompt: Write.
          events: {on_turn_complete: [{type: move_to_next, requires_approval: true}]}
        """
        run = started(stage, steps)
        work(stage, "Write", fails="No ink.")
        flows.complete_by_hand(stage.anna, fresh(run), {"text": "by hand"})
        assert place(run) == "write active"
        answer(stage, "Write", "approve")
        assert fresh(run).status == "completed"

    def test_what_is_no_json_is_refused(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        work(stage, "Write", fails="No ink.")
        with pytest.raises(errors.InvalidInput):
            flows.complete_by_hand(stage.anna, fresh(run), {"n": float("nan")})


class TestRunFrom:
    def test_an_earlier_step_is_entered_anew_with_a_new_task(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        first = step_task(run)
        work(stage, "Write")
        work(stage, "Read", fails="Too dark.", who=cast.READER)
        flows.run_from(stage.anna, fresh(run), "write")
        assert place(run) == "write active"
        assert step_task(run) != first
        assert history(run)[-1] == "read > write (manual, Anna)"

    def test_the_current_step_is_entered_anew_without_a_step_change(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        work(stage, "Write", fails="No ink.")
        flows.run_from(stage.anna, fresh(run), "write")
        assert (place(run), history(run)) == ("write active", [" > write (start, Anna)"])

    def test_a_completed_run_is_run_again_from_one_of_its_steps(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        work(stage, "Write")
        work(stage, "Read", who=cast.READER)
        answer(stage, "Ask", "approve")
        assert fresh(run).status == "completed"
        flows.run_from(stage.anna, fresh(run), "read")
        assert place(run) == "read active"

    def test_a_step_that_the_run_has_not_been_in_is_refused(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        work(stage, "Write", fails="No ink.")
        with pytest.raises(flows.IllegalRunMove, match="has not been in Read yet"):
            flows.run_from(stage.anna, fresh(run), "read")

    def test_it_waits_until_nothing_works(self, stage: Stage) -> None:
        run = started(stage, STEPS)
        work(stage, "Write")
        with pytest.raises(flows.IllegalRunMove, match="Its task is ready"):
            flows.run_from(stage.anna, fresh(run), "write")


def test_another_visit_than_the_one_seen_is_refused(stage: Stage) -> None:
    run = started(stage, STEPS)
    seen = fresh(run).current_visit_id
    work(stage, "Write")
    for act in (
        lambda: flows.skip_step(stage.anna, fresh(run), "No.", visit_id=seen),
        lambda: flows.complete_by_hand(stage.anna, fresh(run), {}, visit_id=seen),
        lambda: flows.run_from(stage.anna, fresh(run), "write", visit_id=seen),
    ):
        with pytest.raises(flows.RunMovedOn):
            act()


def test_a_viewer_may_do_none_of_it(stage: Stage) -> None:
    run = started(stage, STEPS)
    work(stage, "Write", fails="No ink.")
    viewer = cast.chain_of(cast.make_member(stage.space, "vera", "viewer"))
    with pytest.raises(errors.Forbidden):
        flows.skip_step(viewer, fresh(run), "No.")
    with pytest.raises(errors.Forbidden):
        flows.complete_by_hand(viewer, fresh(run), {})
    with pytest.raises(errors.Forbidden):
        flows.run_from(viewer, fresh(run), "write")

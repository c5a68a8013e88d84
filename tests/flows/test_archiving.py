"""Runs are put away and taken out again, by people and by their step's hours (spec: 05 sections 1, 5)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import flows, people, sweeping, tasks
from boards.errors import AlreadyAnswered, Forbidden, NotFound
from boards.models import Debt, Event, FlowRun, Role
from boards.states import Phase, Status
from tests import cast
from tests.flows.cast import Stage, fresh, open_hold, place, settle, step_task
from tests.flows.wip_cast import DESK, LINE, queued, standing

pytestmark = pytest.mark.django_db

HOURS = """
key: hours
name: Hours
style: board
steps:
  - {key: backlog, name: Backlog, auto_archive_after_hours: 48}
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go., auto_archive_after_hours: 1}
  - {key: approve, name: Approve, kind: approval, auto_archive_after_hours: 1}
  - {key: done, name: Done, auto_archive_after_hours: 2}
"""


def start(stage: Stage, text: str, *names: str) -> list[FlowRun]:
    flow = stage.flow(text)
    made = [flows.start(stage.anna, flow, {}, name) for name in names]
    settle()
    return [fresh(run) for run in made]


def stood(run: FlowRun, hours: float) -> FlowRun:
    """So long ago it came to stand as it stands."""
    FlowRun.objects.filter(pk=run.pk).update(stands_since=Now() - timedelta(hours=hours))
    return fresh(run)


class TestArchive:
    def test_it_gives_the_place_up_and_is_told_once(self, stage: Stage) -> None:
        first, second = start(stage, DESK, "First", "Second")
        assert flows.archive(stage.anna, first).archived_at is not None
        settle()
        assert (standing(first, "write"), place(second)) == (["Second"], "write active")
        flows.archive(stage.anna, first)
        assert Event.objects.filter(run=first, kind="run.archived").count() == 1

    def test_what_works_is_stopped_with_its_own_cause_and_completes_nothing(self, stage: Stage) -> None:
        (run,) = start(stage, LINE, "First")
        task = stage.claim().task
        flows.archive(stage.anna, run)
        settle()
        assert (cast.fresh(task).status, cast.fresh(task).error) == (Status.CANCELLED, "Anna archived the run.")
        assert Event.objects.get(task=task, kind="task.cancelled").cause == "archive"
        assert Debt.objects.filter(kind="session_stop", task=task).exists()
        now = fresh(run)
        assert now.current_visit is not None
        assert (place(run), now.current_visit.phase) == ("write active", Phase.PAUSED)

    def test_what_it_asked_is_closed_with_the_reason(self, stage: Stage) -> None:
        run = stage.started()
        stage.complete()
        hold = open_hold(run)
        flows.archive(stage.anna, run)
        settle()
        with pytest.raises(AlreadyAnswered, match="the run was archived"):
            people.answer_hold(stage.anna, hold.pk, choice="approve", shown_hash=hold.draft_hash)
        assert place(run) == "approve active"

    def test_an_archived_run_is_moved_and_worked_by_nobody(self, stage: Stage) -> None:
        (run,) = start(stage, LINE, "First")
        task = step_task(run)
        flows.archive(stage.anna, run)
        settle()
        for act in (
            lambda: flows.move(stage.anna, fresh(run), "done"),
            lambda: flows.run_again(stage.anna, fresh(run)),
            lambda: flows.mark_complete(stage.anna, fresh(run)),
        ):
            with pytest.raises(flows.IllegalRunMove, match="archived"):
                act()
        assert cast.fresh(task).status == Status.CANCELLED

    def test_a_refused_move_cancels_nothing(self, stage: Stage) -> None:
        text = LINE.replace(
            "{key: done, name: Done}", "{key: more, name: More}\n  - {key: done, name: Done, allow_manual_move: false}"
        )
        (run,) = start(stage, text, "First")
        with pytest.raises(flows.IllegalRunMove, match="neighbouring"):
            flows.move(stage.anna, run, "done", cancel_turn=True)
        assert step_task(run).status == Status.PENDING

    def test_a_queued_run_leaves_the_line_and_comes_back_to_it(self, stage: Stage) -> None:
        first, second, third = start(stage, DESK, "First", "Second", "Third")
        flows.archive(stage.anna, second)
        assert queued(first, "write") == ["Third"]
        flows.move(stage.anna, first, "review")
        settle()
        assert place(third) == "write active"
        flows.unarchive(stage.anna, second)
        settle()
        assert queued(first, "write") == ["Second"]
        flows.move(stage.anna, fresh(third), "review")
        settle()
        assert place(second) == "write active"

    def test_whoever_may_only_read_and_whoever_is_of_another_space_is_refused(self, stage: Stage) -> None:
        (run,) = start(stage, DESK, "First")
        viewer = cast.chain_of(cast.make_member(stage.space, "vera", Role.VIEWER))
        with pytest.raises(Forbidden):
            flows.archive(viewer, run)
        with pytest.raises(NotFound):
            flows.archive(cast.chain_of(cast.make_member(cast.make_space("other"), "otto")), run)


class TestUnarchive:
    def test_it_stands_where_it_stood(self, stage: Stage) -> None:
        (run,) = start(stage, DESK, "First")
        visit = run.current_visit_id
        flows.archive(stage.anna, run)
        flows.unarchive(stage.anna, run)
        settle()
        assert (place(run), fresh(run).current_visit_id) == ("write active", visit)

    def test_where_its_step_is_full_by_now_it_queues_and_enters_anew(self, stage: Stage) -> None:
        first, second = start(stage, DESK, "First", "Second")
        flows.archive(stage.anna, first)
        settle()
        flows.unarchive(stage.anna, first)
        settle()
        assert (standing(first, "write"), queued(first, "write")) == (["Second"], ["First"])
        flows.move(stage.anna, fresh(second), "review")
        settle()
        assert place(first) == "write active"
        assert fresh(first).data == {"entered": "ww"}

    def test_a_failed_run_that_queues_begins_its_step_anew(self, stage: Stage) -> None:
        first, second = start(stage, LINE, "First", "Second")
        stage.fail("No ink.")
        flows.archive(stage.anna, first)
        settle()
        flows.unarchive(stage.anna, first)
        assert (fresh(first).status, queued(first, "write")) == ("active", ["First"])
        stage.complete()
        assert (place(second), place(first)) == ("done completed", "write active")
        assert step_task(first).status == Status.PENDING


class TestHours:
    def test_what_has_stood_for_long_enough_is_put_away(self, stage: Stage) -> None:
        young, old = start(stage, HOURS, "Young", "Old")
        stood(young, 47), stood(old, 49)
        assert flows.archive_due(200) == 1
        assert (fresh(young).archived_at, fresh(old).archived_at is not None) == (None, True)
        event = Event.objects.get(run=old, kind="run.archived")
        assert (event.actor, event.data["why"]) == ("flows", "its step says so")

    def test_a_run_that_is_over_counts_from_its_end(self, stage: Stage) -> None:
        (run,) = start(stage, HOURS, "First")
        stood(run, 9)
        flows.move(stage.anna, run, "done")
        assert flows.archive_due(200) == 0
        stood(run, 3)
        assert sweeping.sweep_once().done["runs archived"] == 1

    def test_what_works_or_waits_on_a_person_is_left_alone(self, stage: Stage) -> None:
        works, asks = start(stage, HOURS, "Works", "Asks")
        flows.move(stage.anna, works, "write")
        flows.move(stage.anna, asks, "approve")
        stood(works, 9), stood(asks, 9)
        assert flows.archive_due(200) == 0
        stage.complete()
        stood(works, 9)
        assert flows.archive_due(200) == 1
        assert fresh(works).archived_at is not None

    def test_what_was_taken_out_again_stays_for_as_long_again(self, stage: Stage) -> None:
        (run,) = start(stage, HOURS, "First")
        stood(run, 49)
        assert flows.archive_due(200) == 1
        flows.unarchive(stage.anna, fresh(run))
        assert flows.archive_due(200) == 0

    def test_a_new_version_with_other_hours_changes_no_run_that_is_live(self, stage: Stage) -> None:
        (run,) = start(stage, HOURS.replace("auto_archive_after_hours: 48", "auto_archive_after_hours: 0"), "First")
        stage.flow(HOURS)
        stood(run, 999)
        assert flows.archive_due(200) == 0


def test_a_task_of_an_archived_run_that_ends_late_is_kept_aside(stage: Stage) -> None:
    (run,) = start(stage, LINE, "First")
    got = stage.claim()
    flows.archive(stage.anna, run)
    late = tasks.complete(cast.agent_chain(stage.board, cast.WRITER), got.task, {"text": "Words"}, claim=got.ticket)
    settle()
    assert not late.landed
    assert place(run) == "write active"

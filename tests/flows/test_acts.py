"""What people do to a run: move, mark complete, run again, cancel the turn or the run (spec: 05 sections 2.6-3.6)."""

from __future__ import annotations

import pytest

from boards import errors, flows, people, tasks
from boards.debts import paying
from boards.flows import IllegalRunMove, RunMovedOn
from boards.models import Debt, Event, FlowRun, Hold, Role, Task, TranscriptItem
from boards.states import Phase, Status
from tests import cast
from tests.flows.cast import Stage, fresh, history, open_hold, place, settle, step_task

pytestmark = pytest.mark.django_db

FLAGGED = """
key: flagged
name: Flagged
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go., cancel_triggers_turn_complete: true}
  - {key: read, name: Read, kind: agent, assignee: reader, prompt: Read.}
  - {key: done, name: Done}
"""

BOARD = """
key: desk
name: Desk
style: board
steps:
  - {key: backlog, name: Backlog}
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go.}
  - {key: review, name: Review}
  - {key: done, name: Done, allow_manual_move: false}
"""


def phase(run: FlowRun) -> str:
    visit = fresh(run).current_visit
    assert visit is not None
    return visit.phase


def pay_stops() -> None:
    """What a drain does once the worker is gone."""
    for debt in Debt.objects.filter(kind="session_stop"):
        for freed in paying.settle(debt.pk).freed:
            paying.pay(freed)
    settle()


class TestMove:
    def test_a_card_is_moved_through_a_board_by_people(self, stage: Stage) -> None:
        run = stage.started(BOARD)
        assert place(run) == "backlog active"
        flows.move(stage.anna, fresh(run), "write")
        assert place(run) == "write active"
        stage.complete()
        assert (place(run), phase(run)) == ("write active", Phase.WAITING), "a board waits for a person"
        flows.move(stage.anna, fresh(run), "review")
        flows.move(stage.anna, fresh(run), "done")
        assert place(run) == "done completed"
        assert history(run)[1:] == [
            "backlog > write (manual, Anna)",
            "write > review (manual, Anna)",
            "review > done (manual, Anna)",
        ]

    def test_a_completed_run_may_be_taken_up_again(self, stage: Stage) -> None:
        run = stage.started(BOARD)
        flows.move(stage.anna, fresh(run), "review")
        flows.move(stage.anna, fresh(run), "done")
        flows.move(stage.anna, fresh(run), "review")
        assert place(run) == "review active"
        assert Event.objects.filter(run=run, kind="run.reopened").count() == 1

    def test_a_step_that_takes_neighbours_only_says_so(self, stage: Stage) -> None:
        run = stage.started(BOARD)
        with pytest.raises(IllegalRunMove, match="neighbouring"):
            flows.move(stage.anna, fresh(run), "done")
        with pytest.raises(IllegalRunMove, match="no such step"):
            flows.move(stage.anna, fresh(run), "gone")

    def test_a_move_is_refused_while_the_task_works_unless_its_turn_is_cancelled(self, stage: Stage) -> None:
        run = stage.started(BOARD)
        flows.move(stage.anna, fresh(run), "write")
        task = stage.claim().task
        with pytest.raises(IllegalRunMove, match="Cancel its turn and move it"):
            flows.move(stage.anna, fresh(run), "review")
        flows.move(stage.anna, fresh(run), "review", cancel_turn=True)
        settle()
        assert place(run) == "review active"
        assert cast.fresh(task).status == Status.CANCELLED
        assert Debt.objects.filter(kind="session_stop", task=task).exists()

    def test_a_task_that_nobody_started_is_cancelled_by_a_move(self, stage: Stage) -> None:
        run = stage.started()
        task = step_task(run)
        flows.move(stage.anna, fresh(run), "read")
        settle()
        assert place(run) == "read active"
        assert (cast.fresh(task).status, cast.fresh(task).error) == ("cancelled", "Anna moved the run to Read.")

    def test_a_move_away_from_an_approval_discards_the_question(self, stage: Stage) -> None:
        run = stage.started()
        stage.complete()
        hold = open_hold(run)
        flows.move(stage.anna, fresh(run), "read")
        assert place(run) == "read active"
        with pytest.raises(errors.AlreadyAnswered, match=r"Anna closed this at .* the run went on to Read"):
            people.answer_hold(stage.anna, hold.pk, choice="approve", shown_hash=hold.draft_hash)

    def test_a_move_within_the_step_changes_nothing(self, stage: Stage) -> None:
        run = stage.started()
        task = step_task(run)
        flows.move(stage.anna, fresh(run), "write")
        assert place(run) == "write active"
        assert cast.fresh(task).status == Status.PENDING
        assert len(history(run)) == 1

    def test_an_act_on_a_visit_that_is_over_is_refused(self, stage: Stage) -> None:
        run = stage.started()
        seen = fresh(run).current_visit_id
        stage.complete()
        with pytest.raises(RunMovedOn):
            flows.move(stage.anna, fresh(run), "read", visit_id=seen)


class TestMarkComplete:
    def test_it_is_refused_while_the_step_works_or_asks(self, stage: Stage) -> None:
        run = stage.started()
        with pytest.raises(IllegalRunMove, match="Its task is ready"):
            flows.mark_complete(stage.anna, fresh(run))
        stage.complete()
        with pytest.raises(IllegalRunMove, match="Only an answer completes an approval"):
            flows.mark_complete(stage.anna, fresh(run))

    def test_behind_the_last_step_the_run_is_complete(self, stage: Stage) -> None:
        run = stage.started(
            """
            key: open
            name: Open
            steps:
              - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go.}
            """
        )
        stage.complete()
        assert (place(run), phase(run)) == ("write active", Phase.WAITING)
        flows.mark_complete(stage.anna, fresh(run))
        assert place(run) == "write completed"


class TestRunAgain:
    def test_a_failed_turn_is_retried_with_the_same_task(self, stage: Stage) -> None:
        run = stage.started()
        stage.fail("No ink.")
        task = step_task(run)
        flows.run_again(stage.anna, fresh(run))
        assert (place(run), phase(run)) == ("write active", Phase.WORKING)
        assert step_task(run).pk == task.pk
        assert cast.fresh(task).feedback == "No ink."
        requested = Event.objects.get(task=task, to_status="pending", from_status="errored")
        assert (requested.kind, requested.data) == ("task.retry_requested", {"with": "the step write"})
        stage.complete()
        assert place(run) == "approve active"

    def test_a_completed_turn_is_worked_again_by_a_new_task(self, stage: Stage) -> None:
        run = stage.started(BOARD)
        flows.move(stage.anna, fresh(run), "write")
        stage.complete()
        first = step_task(run)
        flows.run_again(stage.anna, fresh(run))
        assert step_task(run).pk != first.pk
        assert len(history(run)) == 2, "entering the same step again is no step change"

    def test_a_retry_that_the_budget_refuses_makes_way_for_a_new_task(self, stage: Stage) -> None:
        type(stage.board).objects.filter(pk=stage.board.pk).update(max_total_retries=0)
        run = stage.started()
        stage.fail("No ink.")
        task = step_task(run)
        flows.run_again(stage.anna, fresh(run))
        assert step_task(run).pk != task.pk
        assert place(run) == "write active"

    def test_a_rejected_approval_is_asked_again(self, stage: Stage) -> None:
        run = stage.started(
            """
            key: strict
            name: Strict
            steps:
              - {key: approve, name: Approve, kind: approval}
              - {key: done, name: Done}
            """
        )
        with pytest.raises(IllegalRunMove, match="nothing to run again"):
            flows.run_again(stage.anna, fresh(run))
        stage.answer(run, "reject")
        flows.run_again(stage.anna, fresh(run))
        stage.answer(run, "approve")
        assert place(run) == "done completed"

    def test_it_is_refused_while_the_task_works(self, stage: Stage) -> None:
        run = stage.started()
        with pytest.raises(IllegalRunMove, match="cannot be run again yet"):
            flows.run_again(stage.anna, fresh(run))


class TestCancelTurn:
    def test_with_the_flag_off_the_run_pauses_in_place(self, stage: Stage) -> None:
        run = stage.started()
        task = stage.claim().task
        assert flows.cancel_turn(stage.anna, fresh(run)).landed
        assert cast.fresh(task).status == Status.CANCELLED
        assert (place(run), phase(run)) == ("write active", Phase.WORKING), "until the worker is stopped"
        pay_stops()
        assert (place(run), phase(run)) == ("write active", Phase.PAUSED)
        lines = TranscriptItem.objects.filter(session=run.session_id).values_list("text", flat=True)
        assert list(lines) == ["Turn cancelled by Anna"]
        assert Event.objects.get(task=task, kind="task.cancelled").cause == "user_cancel"

    def test_with_the_flag_on_the_card_moves_once_the_worker_is_stopped(self, stage: Stage) -> None:
        run = stage.started(FLAGGED)
        stage.claim()
        flows.cancel_turn(stage.anna, fresh(run))
        settle()
        assert place(run) == "write active", "the stop is still owed"
        pay_stops()
        assert place(run) == "read active"
        assert history(run)[-1] == "write > read (on_turn_complete, Anna)"

    def test_a_turn_that_nobody_works_moves_at_once(self, stage: Stage) -> None:
        run = stage.started(FLAGGED)
        flows.cancel_turn(stage.anna, fresh(run))
        settle()
        assert place(run) == "read active"

    def test_a_second_cancel_changes_nothing(self, stage: Stage) -> None:
        run = stage.started()
        stage.claim()
        flows.cancel_turn(stage.anna, fresh(run))
        again = flows.cancel_turn(stage.anna, fresh(run))
        assert not again.landed
        assert TranscriptItem.objects.filter(session=run.session_id).count() == 1

    def test_an_open_question_keeps_the_card_in_place_with_the_flag_on(self, stage: Stage) -> None:
        run = stage.started(FLAGGED)
        got = stage.claim()
        chain = cast.agent_chain(stage.board)
        people.open_hold(chain, claim=got.ticket, kind="question", prompt="Which one?")
        flows.cancel_turn(stage.anna, fresh(run))
        pay_stops()
        assert (place(run), phase(run)) == ("write active", Phase.PAUSED)
        assert Hold.objects.get(task=got.task).state == "discarded"

    def test_a_late_result_of_the_cancelled_turn_moves_nothing(self, stage: Stage) -> None:
        run = stage.started()
        got = stage.claim()
        flows.cancel_turn(stage.anna, fresh(run))
        late = tasks.complete(cast.agent_chain(stage.board), got.task, {"text": "Late"}, claim=got.ticket)
        assert not late.landed
        pay_stops()
        assert (place(run), phase(run)) == ("write active", Phase.PAUSED)

    def test_a_cancel_of_the_task_alone_is_another_stop_and_never_completes(self, stage: Stage) -> None:
        run = stage.started(FLAGGED)
        tasks.cancel(stage.anna, step_task(run), "Not now.")
        settle()
        assert (place(run), phase(run)) == ("write active", Phase.PAUSED)

    def test_a_paused_turn_can_be_run_again(self, stage: Stage) -> None:
        run = stage.started()
        task = step_task(run)
        flows.cancel_turn(stage.anna, fresh(run))
        settle()
        flows.run_again(stage.anna, fresh(run))
        assert (phase(run), step_task(run).pk) == (Phase.WORKING, task.pk)

    def test_a_step_without_a_turn_has_none_to_cancel(self, stage: Stage) -> None:
        run = stage.started()
        stage.complete()
        with pytest.raises(IllegalRunMove, match="no turn to cancel"):
            flows.cancel_turn(stage.anna, fresh(run))


class TestCancelRun:
    def test_it_cancels_the_task_and_never_completes_a_turn(self, stage: Stage) -> None:
        run = stage.started(FLAGGED)
        task = stage.claim().task
        flows.cancel_run(stage.anna, fresh(run), "Not needed.")
        pay_stops()
        assert place(run) == "write cancelled"
        assert fresh(run).error == "Anna cancelled the run: Not needed."
        assert (cast.fresh(task).status, cast.fresh(task).cancelled_via) == ("cancelled", "flow")
        assert Event.objects.get(task=task, kind="task.cancelled").cause == "run_cancel"
        assert history(run) == [" > write (start, Anna)"]

    def test_while_an_approval_is_open_the_answer_is_refused_in_words(self, stage: Stage) -> None:
        run = stage.started()
        stage.complete()
        hold = open_hold(run)
        flows.cancel_run(stage.olga, fresh(run))
        with pytest.raises(errors.AlreadyAnswered, match=r"Olga closed this at .*: the run was cancelled"):
            people.answer_hold(stage.anna, hold.pk, choice="approve", shown_hash=hold.draft_hash)
        assert not Hold.objects.filter(state="open").exists()
        assert not Task.objects.filter(visit__run=run, assignee="reader").exists()

    def test_a_second_cancel_changes_nothing(self, stage: Stage) -> None:
        run = stage.started()
        flows.cancel_run(stage.anna, fresh(run))
        before = fresh(run)
        flows.cancel_run(stage.olga, fresh(run))
        assert (fresh(run).revision, fresh(run).error) == (before.revision, before.error)

    def test_a_cancelled_run_neither_moves_nor_runs_again_but_can_be_started_again(self, stage: Stage) -> None:
        run = stage.started()
        flows.cancel_run(stage.anna, fresh(run))
        with pytest.raises(IllegalRunMove, match="Start it again"):
            flows.move(stage.anna, fresh(run), "read")
        with pytest.raises(IllegalRunMove, match="Start it again"):
            flows.run_again(stage.anna, fresh(run))
        assert place(flows.start_again(stage.anna, fresh(run))) == "write active"

    def test_tasks_that_its_task_filed_are_cancelled_too(self, stage: Stage) -> None:
        run = stage.started()
        parent = stage.claim().task
        child = tasks.file_task(
            cast.agent_chain(stage.board), stage.board, goal="A part", assignee="reader", filed_by_task=parent
        )
        flows.cancel_run(stage.anna, fresh(run))
        settle()
        assert cast.fresh(child).status == Status.CANCELLED


def test_viewers_may_do_none_of_it_and_strangers_see_no_run(stage: Stage) -> None:
    run = stage.started()
    vera = cast.chain_of(cast.make_member(stage.space, "vera", Role.VIEWER))
    sam = cast.chain_of(cast.make_member(cast.make_space("other"), "sam"))
    acts = (
        lambda chain: flows.move(chain, fresh(run), "read"),
        lambda chain: flows.mark_complete(chain, fresh(run)),
        lambda chain: flows.run_again(chain, fresh(run)),
        lambda chain: flows.cancel_turn(chain, fresh(run)),
        lambda chain: flows.cancel_run(chain, fresh(run)),
        lambda chain: flows.start_again(chain, fresh(run)),
    )
    for act in acts:
        with pytest.raises(errors.Forbidden):
            act(vera)
        with pytest.raises(errors.NotFound):
            act(sam)
    assert place(run) == "write active"

"""Endings at their edges: budgets, leases that run out in the write, batches, words (spec: 01 section 2, 02)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import errors, flows, people, tasks
from boards.models import Attempt, BoardCounter, Debt, Event, Hold, Task
from boards.states import Verb
from boards.tasks import Options, Reason, Recorded, Settlement, Wanted, endings, rows
from tests import cast
from tests.flows.cast import Stage, place, settle

pytestmark = pytest.mark.django_db(transaction=True)


def granted(board):
    return BoardCounter.objects.get(board=board).retries_granted


def budget_of(board, retries):
    board.max_total_retries = retries
    board.save()


def test_a_grant_goes_back_where_the_lease_runs_out_in_the_write(board, anna, worker, monkeypatch):
    task = cast.filed(board, anna, max_attempts=3)
    got = cast.claimed(board)
    write_many = rows.write_many

    def late(writes):
        Task.objects.filter(pk=task.pk).update(lease_until=Now() - timedelta(seconds=1))
        return write_many(writes)

    monkeypatch.setattr(endings.rows, "write_many", late)
    assert tasks.fail(worker, task, "no", claim=got.ticket).reason is Reason.LOST_CLAIM
    assert granted(board) == 0
    assert cast.fresh(task).failures == 0


def test_a_declined_failure_takes_no_grant_from_the_one_beside_it(board, anna, worker):
    budget_of(board, 1)
    for n in (1, 2):
        cast.filed(board, anna, f"Task {n}", max_attempts=3)
    stale, good = tasks.claim([Wanted(board.pk, {"writer": 2})], limit=2, claimed_by=cast.HERE)
    old = replace(stale.ticket, grant_no=stale.ticket.grant_no - 1)
    outcomes = tasks.settle_many(
        [
            Settlement(Verb.FAIL, worker, one.task_key, Options(claim=one, if_allowed=True), text="no")
            for one in (old, good.ticket)
        ]
    )
    assert [outcome.reason for outcome in outcomes] == [Reason.LOST_CLAIM, None]
    assert (cast.fresh(good.task).status, granted(board)) == ("pending", 1)


def test_the_daily_budget_begins_anew_with_the_day_and_one_for_life_does_not(board, anna, worker):
    budget_of(board, 1)
    for status in ("pending", "errored"):
        task = cast.filed(board, anna, f"Task {status}", max_attempts=3)
        tasks.fail(worker, task, "no", claim=cast.claimed(board).ticket, for_good=False)
        assert cast.fresh(task).status == status
        tasks.cancel(anna, task)
    BoardCounter.objects.update(retries_day=Now() - timedelta(days=1))
    third = cast.filed(board, anna, "Third", max_attempts=3)
    tasks.fail(worker, third, "no", claim=cast.claimed(board).ticket)
    assert (cast.fresh(third).status, granted(board)) == ("pending", 1)
    board.scope = "run"
    board.save()
    BoardCounter.objects.update(retries_day=Now() - timedelta(days=1))
    tasks.fail(worker, third, "no", claim=cast.claimed(board).ticket)
    assert (cast.fresh(third).status, granted(board)) == ("errored", 1)


def test_one_task_settled_twice_in_a_batch_ends_once(board, anna, worker):
    task = cast.filed(board, anna)
    got = cast.claimed(board)
    options = Options(claim=got.ticket, if_allowed=True)
    first, second = tasks.settle_many(
        [
            Settlement(Verb.COMPLETE, worker, task.pk, options, output="done"),
            Settlement(Verb.FAIL, worker, task.pk, options, text="no"),
        ]
    )
    assert (first.result, second.result) == (Recorded.RECORDED, Recorded.DECLINED)
    assert (second.reason, second.status) == (Reason.TERMINAL, "completed")
    assert Event.objects.filter(task=task, kind__in=["task.completed", "task.errored"]).count() == 1
    assert cast.fresh(task).failures == 0


@pytest.mark.parametrize("verb", [Verb.COMPLETE, Verb.FAIL])
def test_a_workers_return_never_overwrites_its_open_question(board, anna, worker, verb):
    task = cast.filed(board, anna, max_attempts=2)
    got = cast.claimed(board)
    hold = people.open_hold(worker, claim=got.ticket, kind="approval", prompt="Publish?")
    options = Options(claim=got.ticket, if_allowed=True)
    (outcome,) = tasks.settle_many([Settlement(verb, worker, task.pk, options, output="published", text="no")])
    assert (outcome.result, outcome.reason) == (Recorded.DECLINED, Reason.DISALLOWED)
    assert "waits on a person" in outcome.sentence
    row = cast.fresh(task)
    assert (row.status, row.open_holds, row.output, row.failures) == ("in_progress", 1, None, 0)
    assert Hold.objects.get().state == "open"
    people.suspend(got.ticket)
    people.answer_hold(anna, hold.pk, choice="approve")
    assert tasks.complete(worker, task, "published", claim=cast.claimed(board).ticket).landed


def test_a_worker_may_still_end_for_good_what_waits(board, anna, worker):
    task = cast.filed(board, anna, max_attempts=2)
    got = cast.claimed(board)
    people.open_hold(worker, claim=got.ticket, kind="approval", prompt="Publish?")
    assert tasks.end_for_good(worker, task, "no use", claim=got.ticket, ending="errored").landed
    assert (cast.fresh(task).status, Hold.objects.get().state) == ("errored", "discarded")


def test_a_stop_says_how_long_the_lease_could_still_run(board, anna):
    task = cast.filed(board, anna)
    cast.claimed(board, lease_ms=600_000)
    tasks.cancel(anna, task)
    assert Debt.objects.get(kind="session_stop").data["lease_ms"] == 600_000


def test_any_words_can_be_given_with_an_ending(board, anna, worker):
    bad = "no\x00 \ud800more"
    task = cast.filed(board, anna)
    got = cast.claimed(board)
    people.open_hold(worker, claim=got.ticket, kind="question", prompt="Which?")
    assert tasks.cancel(anna, task, bad).landed
    assert cast.fresh(task).error == Hold.objects.get().closed_reason == "no\ufffd \ufffdmore"
    for n, end in enumerate(
        (
            lambda ticket: tasks.fail(worker, ticket.task_key, bad, claim=ticket),
            lambda ticket: tasks.hand_back(worker, ticket.task_key, claim=ticket, reason=bad),
            lambda ticket: tasks.end_for_good(worker, ticket.task_key, bad, claim=ticket, ending="cancelled"),
        )
    ):
        cast.filed(board, anna, f"Task {n}", assignee="reader")
        assert end(cast.claimed(board, "reader").ticket).landed
        Task.objects.filter(assignee="reader", status="pending").delete()


def test_a_workers_endless_error_is_cut_and_a_persons_reason_refused(board, anna, worker):
    from boards import errors

    task = cast.filed(board, anna)
    got = cast.claimed(board)
    with pytest.raises(errors.InvalidInput, match="reason"):
        tasks.cancel(anna, task, "x" * 10_001)
    assert tasks.fail(worker, task, "x" * 5_000_000, claim=got.ticket).landed
    row, attempt = cast.fresh(task), Attempt.objects.get()
    assert len(row.error) < 70_000
    assert row.error.endswith("[cut at 64 KiB]")
    assert attempt.error == row.error


def test_a_turn_cancelled_after_its_question_was_answered_moves_on():
    stage = Stage()
    run = stage.started(
        """
        key: flagged
        name: Flagged
        steps:
          - key: write
            name: Write
            kind: agent
            assignee: writer
            prompt: Write.
            cancel_triggers_turn_complete: true
          - {key: done, name: Done}
        """
    )
    got = stage.claim()
    hold = people.open_hold(cast.agent_chain(stage.board), claim=got.ticket, kind="question", prompt="Which?")
    people.suspend(got.ticket)
    people.answer_hold(stage.anna, hold.pk, text="This")
    flows.cancel_turn(stage.anna, run)
    settle()
    assert place(run) == "done completed"


def test_a_stranger_ticket_on_an_ended_row_is_told_that_it_ended(board, anna, worker):
    first, second = cast.filed(board, anna, "First"), cast.filed(board, anna, "Second")
    mine, other = tasks.claim([Wanted(board.pk, {"writer": 2})], limit=2, claimed_by=cast.HERE)
    assert tasks.report_progress(worker, first, claim=other.ticket, note="x").reason is Reason.NOT_MY_TASK
    tasks.complete(worker, first, None, claim=mine.ticket)
    assert tasks.report_progress(worker, first, claim=other.ticket, note="x").reason is Reason.TERMINAL
    assert tasks.report_progress(worker, first, claim=mine.ticket, note="x").reason is Reason.TERMINAL
    assert people.suspend(mine.ticket).reason is Reason.TERMINAL
    assert tasks.link_run(worker, mine.ticket, None, "r").reason is Reason.TERMINAL
    assert tasks.link_run(worker, replace(other.ticket, grant_no=0), None, "r").reason is Reason.LOST_CLAIM
    assert tasks.link_run(worker, other.ticket, None, "r\x00").landed
    assert cast.fresh(second).run["request_id"] == "r\ufffd"
    Task.objects.filter(pk=first.pk).delete()
    with pytest.raises(errors.TaskNotFound):
        tasks.link_run(worker, mine.ticket, None, "r")


@pytest.mark.parametrize("span", [999, 6_442_450_942, 1500.5, float("nan"), float("inf"), "120000", True])
def test_a_lease_out_of_range_raises_and_is_not_rounded(board, anna, span):
    cast.filed(board, anna)
    with pytest.raises(ValueError, match="A lease lasts"):
        cast.claimed(board, lease_ms=span)

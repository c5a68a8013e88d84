"""One attempt, and several who want to end it, start it or write to it at the same moment (spec: 02 section 8)."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from boards import errors, people, tasks
from boards.models import Attempt, Event, Hold, Task
from boards.states import Verb
from boards.tasks import Filing, Recorded, TaskWriteOutcome, Wanted
from tests import cast
from tests.racing import at_once
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def board():
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board):
    return cast.chain_of(cast.make_member(board.space))


def test_sweeper_and_worker_close_one_attempt_at_the_same_moment(board, anna):
    """200 rounds, each at the end of a lease: one ending, one event, no open attempt, whoever comes first.

    The lease left grows where the sweeper won and shrinks where the worker did, so that the rounds stay at the edge.
    """
    worker, step = cast.agent_chain(board), threading.Barrier(2)
    tasks.file_tasks(anna, board, [Filing(goal=f"Task {n}", assignee="writer") for n in range(200)])
    claimed = tasks.claim([Wanted(board.pk, {"writer": 200})], limit=200, claimed_by=cast.HERE)
    assert len(claimed) == 200
    Task.objects.update(abandonments=3)
    answers: list[TaskWriteOutcome] = []

    def works() -> None:
        left = 8.0
        for one in claimed:
            lease = Now() + timedelta(milliseconds=left)
            Task.objects.filter(pk=one.task.pk).update(lease_until=lease)
            step.wait(60)
            answers.append(tasks.complete(worker, one.task, "done", claim=one.ticket))
            left = max(left * 0.7, 0.1) if answers[-1].landed else min(left * 1.4, 1_000)
            step.wait(60)

    def sweeps() -> None:
        for one in claimed:
            step.wait(60)
            until(lambda key=one.task.pk: tasks.abandon_spent(limit=5) or is_over(key), what="one of them ends it")
            step.wait(60)

    at_once(works, sweeps)
    endings = {"completed": "completed", "errored": "abandoned"}
    for one, answer in zip(claimed, answers, strict=True):
        status = cast.fresh(one.task).status
        assert answer.landed == (status == "completed")
        assert list(Attempt.objects.filter(task=one.task).values_list("ending", flat=True)) == [endings[status]]
    counted = Event.objects.filter(kind__in=["task.completed", "task.errored"])
    assert counted.count() == len(set(counted.values_list("task", flat=True))) == 200
    assert set(Task.objects.values_list("status", flat=True)) == set(endings), "both won some of the rounds"


def is_over(key: int) -> bool:
    return Task.objects.filter(pk=key).exclude(status="in_progress").exists()


def test_a_hand_over_that_is_delivered_twice_starts_once(board, anna):
    for n in range(20):
        cast.filed(board, anna, f"Task {n}")
    chain = cast.agent_chain(board)
    for one in tasks.claim([Wanted(board.pk, {"writer": 20})], limit=20, claimed_by=cast.HERE):
        outcomes = at_once(
            *[lambda n=n, one=one: tasks.link_run(chain, one.ticket, None, f"request-{n}") for n in range(2)]
        )
        started = [n for n, outcome in enumerate(outcomes) if outcome.result is Recorded.RECORDED]
        assert len(started) == 1
        run = cast.fresh(one.task).run
        assert run is not None
        assert run["request_id"] == f"request-{started[0]}"
    assert Event.objects.filter(kind="task.run_linked").count() == 20


@pytest.mark.parametrize("round_", range(10))
def test_a_run_that_is_resumed_while_its_old_process_writes_takes_nothing_from_it(board, anna, round_):
    task = cast.filed(board, anna)
    old = cast.claimed(board).ticket
    worker = cast.agent_chain(board)
    hold = people.open_hold(worker, claim=old, kind="question", prompt="Which?")
    people.suspend(old)
    people.answer_hold(anna, hold.pk, text="This one")
    wanted = [Wanted(board.pk, {"writer": 1})]
    resumed, *late = at_once(
        # A claim passes by a row that somebody holds for a moment.
        lambda: until(lambda: tasks.claim(wanted, limit=1, claimed_by=cast.HERE), what="it is resumed"),
        lambda: tasks.renew_leases([old])[task.pk],
        lambda: tasks.link_run(worker, old, None, "old"),
    )
    (new,) = resumed
    assert (new.resumed, new.ticket.attempt, new.ticket.grant_no) == (True, 1, old.grant_no + 1)
    assert late[0] is None
    before = cast.fresh(task)
    outcomes = at_once(
        lambda: tasks.complete(worker, task, "old", claim=old),
        lambda: tasks.fail(worker, task, "old", claim=old),
        lambda: tasks.hand_back(worker, task, claim=old),
        lambda: people.suspend(old),
        lambda: tasks.end_for_good(worker, task, "old", claim=old, ending="cancelled"),
    )
    assert [outcome.result for outcome in outcomes] == [Recorded.DECLINED] * 5
    after = cast.fresh(task)
    assert (after.revision, after.status, after.output) == (before.revision, "in_progress", None)
    assert tasks.complete(worker, task, "new", claim=new.ticket).result is Recorded.RECORDED


def test_what_the_first_attempt_still_sends_declines_and_the_second_is_untouched(board, anna, lapse):
    task = cast.filed(board, anna)
    first = cast.claimed(board).ticket
    lapse(task)
    second = cast.claimed(board).ticket
    assert (second.attempt, second.grant_no) == (2, first.grant_no + 1)
    worker = cast.agent_chain(board)
    before = cast.fresh(task)
    outcomes = at_once(
        lambda: tasks.complete(worker, task, "late", claim=first),
        lambda: tasks.fail(worker, task, "late", claim=first),
        lambda: tasks.report_progress(worker, task, output={"n": 1}, note="late", claim=first),
        lambda: tasks.hand_back(worker, task, claim=first),
        lambda: tasks.link_run(worker, first, None, "late"),
    )
    assert [outcome.result for outcome in outcomes] == [Recorded.DECLINED] * 5
    assert tasks.renew_leases([first])[task.pk] is None
    with pytest.raises((errors.Refusal, tasks.LostClaim)):
        people.open_hold(worker, claim=first, kind="question", prompt="Which?")
    after = cast.fresh(task)
    assert (after.revision, after.lease_until, after.status_note) == (before.revision, before.lease_until, "")
    assert not Hold.objects.exists()
    assert set(Attempt.objects.values_list("number", "ending")) == {(1, "lost"), (2, "")}
    assert tasks.complete(worker, task, "good", claim=second).result is Recorded.RECORDED


def test_a_task_whose_worker_always_dies_is_handed_out_four_times_and_settled_by_the_fifth_claim(board, anna, lapse):
    task = cast.filed(board, anna)
    for attempt in range(1, 5):
        assert cast.claimed(board).ticket.attempt == attempt
        lapse(task)
    assert tasks.claim([Wanted(board.pk, {"writer": 1})], limit=1, claimed_by=cast.HERE) == []
    row = cast.fresh(task)
    assert (row.status, row.attempts, row.abandonments, row.failures) == ("errored", 4, 3, 0)
    assert task.public_id in row.error
    assert list(Attempt.objects.order_by("number").values_list("ending", flat=True)) == ["lost"] * 3 + ["abandoned"]


def test_a_thousand_dependencies_end_while_what_waits_for_them_is_filed(board, anna):
    """250 rounds of two threads: one ends four tasks, the other files what waits for them; nobody waits for ever."""
    groups = [[f"f{n}-{k}" for k in range(4)] for n in range(250)]
    tasks.file_tasks(
        anna, board, [Filing(goal=f"Task {name}", id=name, assignee="writer") for names in groups for name in names]
    )
    tickets = {}
    while got := tasks.claim([Wanted(board.pk, {"writer": 200})], limit=200, claimed_by=cast.HERE):
        tickets |= {one.task.public_id: one.ticket for one in got}
    worker, step = cast.agent_chain(board), threading.Barrier(2)

    def ends() -> None:
        for names in groups:
            settlements = [
                tasks.Settlement(Verb.COMPLETE, worker, tickets[name].task_key, tasks.Options(claim=tickets[name]))
                for name in names
            ]
            step.wait(60)
            assert all(outcome.landed for outcome in tasks.settle_many(settlements))

    def files() -> None:
        for names in groups:
            step.wait(60)
            cast.filed(board, anna, f"After {names[0]}", deps=names, assignee="reader")

    at_once(ends, files)
    assert Task.objects.filter(assignee="writer", status="completed").count() == 1_000
    assert Task.objects.filter(assignee="reader").count() == 250
    assert set(Task.objects.filter(assignee="reader").values_list("status", "unmet_deps")) == {("pending", 0)}


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_process_whose_clock_is_ten_minutes_off_changes_nothing(board, anna, minutes, monkeypatch):
    """Leases, due times and back-off are the database's to judge; this process's clocks are all wrong."""
    off, true_time, true_now = minutes * 60, time.time, timezone.now
    monkeypatch.setattr(time, "time", lambda: true_time() + off)
    monkeypatch.setattr(timezone, "now", lambda: true_now() + timedelta(minutes=minutes))
    task = cast.filed(board, anna)
    one = cast.claimed(board, lease_ms=60_000)
    with connection.cursor() as cursor:
        cursor.execute("select statement_timestamp()")
        now = cursor.fetchone()[0]
    assert timedelta(seconds=50) < one.task.lease_until - now <= timedelta(seconds=60)
    assert tasks.claim([Wanted(board.pk, {"writer": 1})], limit=1, claimed_by=cast.HERE) == [], "the lease runs"
    assert tasks.abandon_spent() == 0
    deadline = tasks.renew_leases([one.ticket])[task.pk]
    assert deadline is not None
    assert timedelta(seconds=50) < deadline - now <= timedelta(seconds=70)
    worker = cast.agent_chain(board)
    hold = people.open_hold(worker, claim=one.ticket, kind="question", prompt="?", due_in_ms=60_000)
    assert timedelta(seconds=50) < hold.due_at - now <= timedelta(seconds=70)
    assert people.expire_due() == 0
    people.answer_hold(anna, hold.pk, text="This")
    assert tasks.complete(worker, task, "done", claim=one.ticket).result is Recorded.RECORDED
    assert now - timedelta(seconds=5) < cast.fresh(task).completed_at < now + timedelta(seconds=60)

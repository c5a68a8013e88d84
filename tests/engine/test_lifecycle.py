"""The main line of a task's life, through the verbs, on a real PostgreSQL."""

from __future__ import annotations

import pytest

from boards import errors, people, tasks
from boards.models import Attempt, Debt, Event
from boards.tasks import Filing, HoldFiling, Reason, Recorded
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def space():
    return cast.make_space()


@pytest.fixture
def board(space):
    return cast.make_board(space)


@pytest.fixture
def anna(space):
    return cast.chain_of(cast.make_member(space))


def kinds(task):
    return list(Event.objects.filter(task=task).order_by("id").values_list("kind", flat=True))


def test_filed_claimed_completed(board, anna):
    task = cast.filed(board, anna)
    got = cast.claimed(board)
    assert got.task.pk == task.pk
    assert (got.task.status, got.task.attempts, got.task.abandonments) == ("in_progress", 1, 0)
    outcome = tasks.complete(cast.agent_chain(board), task, {"text": "done"}, claim=got.ticket)
    assert outcome.result is Recorded.RECORDED
    row = cast.fresh(task)
    assert (row.status, row.output, row.lease_until) == ("completed", {"text": "done"}, None)
    assert row.completed_at is not None
    attempt = Attempt.objects.get(task=task)
    assert (attempt.ending, attempt.output) == ("completed", {"text": "done"})
    assert kinds(task) == ["task.filed", "task.claimed", "task.completed"]


def test_a_dependent_waits_and_then_starts(board, anna):
    first = cast.filed(board, anna, "First")
    second = cast.filed(board, anna, "Second", deps=[first.public_id])
    assert second.unmet_deps == 1
    got = cast.claimed(board)
    assert got.task.pk == first.pk
    assert tasks.claim([tasks.Wanted(board.pk, {"writer": 5})], limit=5, claimed_by=cast.HERE) == []
    tasks.complete(cast.agent_chain(board), first, None, claim=got.ticket)
    assert cast.fresh(second).unmet_deps == 0
    assert cast.claimed(board).task.pk == second.pk


def test_failure_spends_tries_and_then_is_stuck(board, anna):
    task = cast.filed(board, anna, max_attempts=2)
    agent = cast.agent_chain(board)
    tasks.fail(agent, task, "first", claim=cast.claimed(board).ticket)
    row = cast.fresh(task)
    assert (row.status, row.feedback, row.error, row.failures) == ("pending", "first", "", 1)
    assert row.retry_ledger == {"granted": 1, "denied_by_budget": False}
    tasks.fail(agent, task, "second", claim=cast.claimed(board).ticket)
    row = cast.fresh(task)
    assert (row.status, row.error, row.failures) == ("errored", "second", 2)


def test_the_retry_budget_refuses_and_says_so(space, anna):
    board = cast.make_board(space, "tight", max_total_retries=1)
    agent = cast.agent_chain(board)
    one, two = (cast.filed(board, anna, f"Task {n}", max_attempts=3) for n in (1, 2))
    first, second = tasks.claim([tasks.Wanted(board.pk, {"writer": 2})], limit=2, claimed_by=cast.HERE)
    tasks.fail(agent, one, "no", claim=first.ticket)
    tasks.fail(agent, two, "no", claim=second.ticket)
    assert cast.fresh(one).status == "pending"
    row = cast.fresh(two)
    assert row.status == "errored"
    assert "limit of 1" in row.error
    assert row.retry_ledger["denied_by_budget"]


def test_a_stuck_task_cancels_what_depends_on_it_all_the_way(board, anna):
    root = cast.filed(board, anna, "Root")
    child = cast.filed(board, anna, "Child", deps=[root.public_id])
    grandchild = cast.filed(board, anna, "Grandchild", deps=[child.public_id])
    tasks.fail(cast.agent_chain(board), root, "boom", claim=cast.claimed(board).ticket)
    for task in (child, grandchild):
        row = cast.fresh(task)
        assert (row.status, row.cancelled_via) == ("cancelled", "cascade")
        assert "“Root” failed" in row.error
    assert not Debt.objects.exists()
    assert tasks.retry(anna, child).reason is Reason.DEPENDENCY_ENDED
    assert tasks.retry(anna, root, with_dependents=True).result is Recorded.RECORDED
    assert cast.fresh(root).feedback == "boom"
    assert cast.fresh(child).status == "pending"
    assert cast.fresh(child).unmet_deps == 1


def test_a_checker_accepts_or_sends_back(board, anna):
    task = cast.filed(board, anna, checker="person")
    agent = cast.agent_chain(board)
    tasks.complete(agent, task, "v1", claim=cast.claimed(board).ticket)
    assert cast.fresh(task).status == "needs_check"
    with pytest.raises(errors.InvalidInput):
        tasks.send_back(anna, task, "  ")
    tasks.send_back(anna, task, "Longer, please")
    row = cast.fresh(task)
    assert (row.status, row.feedback, row.failures) == ("pending", "Longer, please", 0)
    tasks.complete(agent, task, "v2", claim=cast.claimed(board).ticket)
    tasks.accept(anna, task)
    assert (cast.fresh(task).status, cast.fresh(task).output) == ("completed", "v2")


def test_a_filing_with_a_question_waits_for_its_answer(board, anna):
    task = cast.filed(board, anna, holds=[HoldFiling(kind="confirm", prompt="Really?")])
    assert tasks.claim([tasks.Wanted(board.pk, {"writer": 1})], limit=1, claimed_by=cast.HERE) == []
    hold = task.holds.get()
    people.answer_hold(anna, hold.pk, choice="yes")
    assert cast.claimed(board).task.pk == task.pk
    with pytest.raises(errors.AlreadyAnswered, match="Anna"):
        people.answer_hold(anna, hold.pk, choice="no")


def test_a_run_suspends_is_answered_and_resumes_on_the_same_attempt(board, anna):
    task = cast.filed(board, anna)
    got = cast.claimed(board)
    agent = cast.agent_chain(board)
    hold = people.open_hold(agent, claim=got.ticket, kind="approval", prompt="Publish?", draft="v1")
    again = people.open_hold(
        agent, claim=got.ticket, kind="approval", prompt="Publish?", draft="v1", dedup_key=hold.dedup_key
    )
    assert again.pk == hold.pk
    assert people.suspend(got.ticket).landed
    row = cast.fresh(task)
    assert (row.status, row.kept_open_by, row.lease_until, row.open_holds) == ("in_progress", "suspended", None, 1)
    with pytest.raises(errors.DraftChanged):
        people.answer_hold(anna, hold.pk, choice="approve", shown_hash="other")
    people.answer_hold(anna, hold.pk, choice="approve", shown_hash=hold.draft_hash)
    resumed = cast.claimed(board)
    assert resumed.resumed
    assert (resumed.task.attempts, resumed.ticket.grant_no) == (1, got.ticket.grant_no + 1)
    stale = tasks.complete(agent, task, "late", claim=got.ticket)
    assert stale.reason is Reason.LOST_CLAIM
    assert tasks.complete(agent, task, "right", claim=resumed.ticket).result is Recorded.RECORDED


def test_a_lapsed_lease_is_taken_back_and_the_old_attempt_closed_as_lost(board, anna, lapse):
    task = cast.filed(board, anna)
    for n in range(1, 5):
        got = cast.claimed(board)
        assert (got.task.attempts, got.task.abandonments) == (n, n - 1)
        lapse(task)
    assert tasks.claim([tasks.Wanted(board.pk, {"writer": 1})], limit=1, claimed_by=cast.HERE) == []
    row = cast.fresh(task)
    assert row.status == "errored"
    assert "4 times" in row.error
    assert list(Attempt.objects.filter(task=task).values_list("ending", flat=True)) == ["lost"] * 3 + ["abandoned"]


def test_renewal_moves_the_lease_and_declines_for_an_old_grant(board, anna, lapse):
    task = cast.filed(board, anna)
    old = cast.claimed(board)
    revision = cast.fresh(task).revision
    assert tasks.renew_leases([old.ticket])[task.pk] is not None
    assert cast.fresh(task).revision == revision
    lapse(task)
    assert tasks.renew_leases([old.ticket])[task.pk] is None
    new = cast.claimed(board)
    assert tasks.renew_leases([old.ticket, new.ticket])[task.pk] is not None
    assert not tasks.owns(old.ticket)


def test_hand_back_spends_nothing(board, anna):
    task = cast.filed(board, anna)
    got = cast.claimed(board)
    tasks.hand_back(cast.agent_chain(board), task, claim=got.ticket)
    row = cast.fresh(task)
    assert (row.status, row.failures, row.abandonments) == ("pending", 0, 0)


def test_filing_refusals_write_nothing(board, anna):
    with pytest.raises(errors.UnknownAssignee, match="writer, reader"):
        tasks.file_task(anna, board, goal="x", assignee="nobody")
    with pytest.raises(errors.DependencyNotOnBoard):
        tasks.file_task(anna, board, goal="x", deps=["t99"])
    with pytest.raises(errors.DependencyLoop, match="a → b → a"):
        tasks.file_tasks(anna, board, [Filing(goal="a", id="a", deps=["b"]), Filing(goal="b", id="b", deps=["a"])])
    with pytest.raises(errors.InvalidInput):
        tasks.file_task(anna, board, goal=" \u200b ")
    tasks.file_task(anna, board, goal="Same  goal")
    with pytest.raises(errors.AlreadyOpen):
        tasks.file_task(anna, board, goal="same goal")
    assert Event.objects.count() == 1


def test_the_same_key_answers_the_first_result(board, anna):
    first = tasks.file_task(anna, board, goal="Once", idempotency_key="k1")
    again = tasks.file_task(anna, board, goal="Once", idempotency_key="k1")
    assert again.pk == first.pk
    with pytest.raises(errors.KeyReused):
        tasks.file_task(anna, board, goal="Other", idempotency_key="k1")


def test_cancel_discards_the_questions_and_stops_the_worker(board, anna):
    task = cast.filed(board, anna)
    cast.claimed(board)
    tasks.cancel(anna, task, "no longer wanted")
    row = cast.fresh(task)
    assert (row.status, row.cancelled_via, row.error) == ("cancelled", "person", "no longer wanted")
    assert tasks.stopping(task)
    assert tasks.retry(anna, task).reason is Reason.SETTLING
    assert tasks.cancel(anna, task).reason is Reason.TERMINAL


def test_a_retry_with_dependents_reaches_all_that_the_cascade_cancelled(board, anna):
    chain = [cast.filed(board, anna, "Root")]
    for name in ("Child", "Grandchild"):
        chain.append(cast.filed(board, anna, name, deps=[chain[-1].public_id]))
    tasks.cancel(anna, chain[0], "not now")
    assert [cast.fresh(task).status for task in chain] == ["cancelled"] * 3
    assert tasks.cancelled_by(chain[0].pk) == [chain[1].pk, chain[2].pk]
    tasks.retry(anna, chain[0], with_dependents=True)
    assert [cast.fresh(task).status for task in chain] == ["pending"] * 3


def test_an_operator_reclaims_only_what_lost_its_worker(board, space, lapse):
    olga = cast.chain_of(cast.make_member(space, "olga", "operator"))
    task = cast.filed(board, olga)
    cast.claimed(board)
    assert tasks.reclaim(olga, task).reason is Reason.LOST_CLAIM
    lapse(task)
    assert tasks.reclaim(olga, task).result is Recorded.RECORDED
    assert (cast.fresh(task).status, cast.fresh(task).abandonments) == ("pending", 0)


def test_start_anyway_leaves_out_what_ended_without_completing(board, anna):
    first = cast.filed(board, anna, "First")
    second = cast.filed(board, anna, "Second", deps=[first.public_id])
    tasks.cancel(anna, first)
    assert cast.fresh(second).status == "cancelled"
    tasks.start_anyway(anna, second)
    row = cast.fresh(second)
    assert (row.status, row.unmet_deps) == ("pending", 0)
    assert cast.claimed(board).task.pk == second.pk


def test_a_no_before_the_start_keeps_the_gate_shut_until_somebody_releases_it(board, anna):
    task = cast.filed(board, anna, holds=[HoldFiling(kind="confirm", prompt="Delete the builds?")])
    people.answer_hold(anna, task.holds.get().pk, choice="no")
    row = cast.fresh(task)
    assert (row.status, row.open_holds) == ("held", 0)
    assert kinds(task)[-2:] == ["task.held", "hold.answered"]
    assert tasks.claim([tasks.Wanted(board.pk, {"writer": 1})], limit=1, claimed_by=cast.HERE) == []
    tasks.release(anna, task)
    assert cast.claimed(board).task.pk == task.pk

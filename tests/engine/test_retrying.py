"""What a retry and a start anyway bring back, and what they must not let through (spec: 01 "Retry", "Cascade")."""

from __future__ import annotations

import pytest

from boards import errors, people, tasks
from boards.actors import Hop, KeyRights
from boards.debts import paying
from boards.models import Event, Scope, Task
from boards.tasks import HoldFiling, Reason, Recorded, Wanted
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)

SURE = HoldFiling("confirm", "Delete all of them?")


def claimable(board):
    return [one.task.pk for one in tasks.claim([Wanted(board.pk, {"writer": 9})], limit=9, claimed_by=cast.HERE)]


def test_a_retry_asks_again_what_nobody_had_answered(board, anna):
    task = cast.filed(board, anna, holds=[SURE])
    tasks.cancel(anna, task, "not now")
    assert task.holds.get().state == "discarded"
    assert tasks.retry(anna, task).result is Recorded.RECORDED
    assert claimable(board) == []
    hold = task.holds.get(state="open")
    assert (hold.prompt, hold.answered_by_name, cast.fresh(task).open_holds) == (SURE.prompt, "", 1)
    assert Event.objects.filter(task=task, kind="hold.opened").count() == 2
    people.answer_hold(anna, hold.pk, choice="yes")
    assert claimable(board) == [task.pk]


def test_a_retry_does_not_ask_again_what_was_answered(board, anna):
    task = cast.filed(board, anna, holds=[SURE])
    people.answer_hold(anna, task.holds.get().pk, choice="yes")
    tasks.cancel(anna, task, "not now")
    tasks.retry(anna, task)
    assert claimable(board) == [task.pk]


def test_dependents_that_are_retried_along_ask_again(board, anna):
    root = cast.filed(board, anna, "Root")
    child = cast.filed(board, anna, "Child", deps=[root.public_id], holds=[SURE])
    tasks.cancel(anna, root)
    tasks.retry(anna, root, with_dependents=True)
    tasks.complete(cast.agent_chain(board), root, None, claim=cast.claimed(board).ticket)
    assert (cast.fresh(child).status, cast.fresh(child).unmet_deps) == ("pending", 0)
    assert claimable(board) == []


def test_start_anyway_passes_dependencies_and_no_question(board, anna):
    root = cast.filed(board, anna, "Root")
    child = cast.filed(board, anna, "Child", deps=[root.public_id], holds=[SURE])
    tasks.cancel(anna, root)
    tasks.start_anyway(anna, child)
    assert cast.fresh(child).status == "pending"
    assert claimable(board) == []
    people.answer_hold(anna, child.holds.get(state="open").pk, choice="yes")
    assert claimable(board) == [child.pk]


def test_start_anyway_is_no_way_around_a_retry(board, anna):
    task = cast.filed(board, anna)
    tasks.cancel(anna, task)
    with pytest.raises(errors.IllegalTaskTransition):
        tasks.start_anyway(anna, task)
    assert cast.fresh(task).status == "cancelled"


def test_start_anyway_takes_the_marks_of_the_cascade_off(board, anna):
    root = cast.filed(board, anna, "Root")
    child = cast.filed(board, anna, "Child", deps=[root.public_id])
    tasks.cancel(anna, root)
    tasks.start_anyway(anna, child)
    assert cast.fresh(child).metadata == {}


def test_the_reasons_against_a_retry_come_in_their_order(space, anna):
    board = cast.make_board(space, "tight", max_total_retries=0)
    first = cast.filed(board, anna, "First")
    second = cast.filed(board, anna, "Second", deps=[first.public_id])
    cast.claimed(board)
    assert tasks.retry(anna, first).reason is Reason.DISALLOWED
    tasks.cancel(anna, first)
    assert tasks.retry(anna, first).reason is Reason.SETTLING
    assert tasks.retry(anna, second).reason is Reason.DEPENDENCY_ENDED
    for debt in first.debts.all():
        paying.pay(debt.pk)
    assert tasks.retry(anna, first).reason is Reason.RETRY_BUDGET
    assert Task.objects.get(pk=first.pk).retry_ledger is None


def test_a_retry_of_what_got_a_no_asks_again_and_does_not_start(board, anna):
    root = cast.filed(board, anna, "Root")
    child = cast.filed(board, anna, "Child", deps=[root.public_id], holds=[SURE])
    people.answer_hold(anna, child.holds.get().pk, choice="no", text="Not these")
    tasks.cancel(anna, root)
    tasks.retry(anna, root, with_dependents=True)
    tasks.complete(cast.agent_chain(board), root, None, claim=cast.claimed(board).ticket)
    hold = child.holds.get(state="open")
    assert (hold.answer, hold.answer_key, claimable(board)) == (None, "", [])
    people.answer_hold(anna, hold.pk, choice="yes")
    assert (cast.fresh(child).status, claimable(board)) == ("held", []), (
        "the no had it held, and only a person releases"
    )
    tasks.release(anna, child)
    assert claimable(board) == [child.pk]


def test_what_was_released_after_a_no_and_ran_is_not_asked_about_again(board, anna):
    task = cast.filed(board, anna, holds=[SURE])
    people.answer_hold(anna, task.holds.get().pk, choice="no")
    tasks.release(anna, task)
    tasks.fail(cast.agent_chain(board), task, "boom", claim=cast.claimed(board).ticket)
    tasks.retry(anna, task)
    assert claimable(board) == [task.pk]


def test_a_retry_keeps_what_was_lost_so_that_a_deadly_task_gets_one_more_attempt(board, anna, lapse):
    """Lost workers are counted for life, as failures are: a retry of an abandoned task is one more try, not four."""
    task = cast.filed(board, anna)
    for _ in range(4):
        cast.claimed(board)
        lapse(task)
    assert (tasks.abandon_spent(), cast.fresh(task).status) == (1, "errored")
    assert tasks.retry(anna, task).result is Recorded.RECORDED
    assert (cast.fresh(task).abandonments, cast.fresh(task).attempts) == (3, 4)
    assert cast.claimed(board).ticket.attempt == 5, "it is handed out, since its lease did not lapse"
    lapse(task)
    assert claimable(board) == []
    row = cast.fresh(task)
    assert (row.status, row.attempts, row.failures) == ("errored", 5, 0)


def test_only_a_person_starts_a_task_without_what_it_waits_for(board, anna):
    first = cast.filed(board, anna, "First")
    second = cast.filed(board, anna, "Second", deps=[first.public_id])
    tasks.cancel(anna, first)
    everything = KeyRights(frozenset(Scope.values))
    agent = anna.then(Hop("agent", "helper", "key:1", "operator", everything))
    with pytest.raises(errors.Forbidden, match="Only a person"):
        tasks.start_anyway(agent, second)
    assert cast.fresh(second).status == "cancelled"
    assert tasks.start_anyway(anna, second).landed

"""What keeps a task from starting stays in its way, and dependencies never form a loop (faults 7 to 9, 01)."""

from __future__ import annotations

import pytest

from boards import errors, people, tasks
from boards.debts import paying
from boards.models import Event, Hold, TaskDep
from boards.tasks import Filing, HoldFiling, Wanted
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)

CONFIRM = [HoldFiling(kind="confirm", prompt="Really?")]


@pytest.fixture
def board():
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board):
    return cast.chain_of(cast.make_member(board.space))


def claim_all(board):
    return [got.task.public_id for got in tasks.claim([Wanted(board.pk, {"writer": 9})], limit=9, claimed_by=cast.HERE)]


def stuck(board, chain, **fields):
    task = cast.filed(board, chain, **fields)
    got = cast.claimed(board)
    assert got.task.pk == task.pk
    tasks.fail(cast.agent_chain(board), task, "boom", claim=got.ticket)
    return task


def test_nothing_but_the_answer_starts_what_was_filed_with_a_confirm(board, anna):
    task = cast.filed(board, anna, holds=CONFIRM)
    for _ in range(3):
        assert claim_all(board) == []
        people.expire_due()
        tasks.abandon_spent()
        paying.pay_due()
    assert cast.fresh(task).status == "pending"
    people.answer_hold(anna, task.holds.get().pk, choice="yes")
    assert claim_all(board) == [task.public_id]
    assert all(event.chain for event in Event.objects.filter(task=task))


@pytest.mark.parametrize("how", ["start_anyway", "retry"])
def test_a_confirm_that_went_with_a_cascade_is_asked_again_before_it_starts(board, anna, how):
    first = cast.filed(board, anna, id="first")
    second = cast.filed(board, anna, id="second", deps=["first"], holds=CONFIRM)
    tasks.fail(cast.agent_chain(board), first, "boom", claim=cast.claimed(board).ticket)
    assert cast.fresh(second).status == "cancelled"
    assert second.holds.get().state == "discarded"
    if how == "start_anyway":
        assert tasks.start_anyway(anna, second).landed
    else:
        tasks.retry(anna, first, with_dependents=True)
        done = cast.claimed(board)
        tasks.complete(cast.agent_chain(board), first, None, claim=done.ticket)
    row = cast.fresh(second)
    assert (row.status, row.unmet_deps, row.open_holds) == ("pending", 0, 1)
    assert claim_all(board) == []
    hold = second.holds.get()
    assert (hold.state, hold.answered_at, hold.closed_reason) == ("open", None, "")
    people.answer_hold(anna, hold.pk, choice="yes")
    assert claim_all(board) == ["second"]


def test_a_confirm_that_was_answered_is_not_asked_again_by_a_retry(board, anna):
    task = cast.filed(board, anna, holds=CONFIRM)
    people.answer_hold(anna, task.holds.get().pk, choice="yes")
    tasks.cancel(anna, task)
    tasks.retry(anna, task)
    assert Hold.objects.get(task=task).state == "answered"
    assert claim_all(board) == [task.public_id]


def test_start_anyway_leaves_a_held_task_held_and_other_dependencies_in_their_place(board, anna):
    for name in ("bad", "good"):
        cast.filed(board, anna, id=name)
    held = cast.filed(board, anna, id="held", held=True, deps=["bad"])
    waiting = cast.filed(board, anna, id="waiting", deps=["bad", "good"])
    got = {one.task.public_id: one for one in tasks.claim([Wanted(board.pk, {"writer": 2})], limit=2, claimed_by={})}
    tasks.fail(cast.agent_chain(board), got["bad"].task, "boom", claim=got["bad"].ticket)
    tasks.retry(anna, waiting)  # declined: its dependency ended
    for task in (held, waiting):
        tasks.start_anyway(anna, task)
    assert claim_all(board) == []
    assert (cast.fresh(held).status, cast.fresh(held).metadata) == ("held", {})
    assert cast.fresh(waiting).unmet_deps == 1
    tasks.complete(cast.agent_chain(board), got["good"].task, None, claim=got["good"].ticket)
    assert claim_all(board) == ["waiting"]
    tasks.release(anna, held)
    assert claim_all(board) == ["held"]


def test_a_retry_with_dependents_holds_again_what_nobody_had_released(board, anna):
    first = cast.filed(board, anna, id="first")
    held = cast.filed(board, anna, id="held", held=True, deps=["first"])
    tasks.fail(cast.agent_chain(board), first, "boom", claim=cast.claimed(board).ticket)
    assert cast.fresh(held).status == "cancelled"
    tasks.retry(anna, first, with_dependents=True)
    assert cast.fresh(held).status == "held"
    kinds = list(Event.objects.filter(task=held).order_by("id").values_list("kind", flat=True))
    assert kinds == ["task.filed", "task.cancelled", "task.retry_requested", "task.held"]


def test_taking_out_the_last_dependency_tells_that_it_starts_and_writes_nothing_until_told(board, anna):
    cast.filed(board, anna, id="first", assignee="reader")
    cast.filed(board, anna, id="other", assignee="reader")
    task = cast.filed(board, anna, id="task", deps=["first", "other"])
    assert tasks.update_task(anna, task, deps=["first"], unless_it_starts=True).landed
    with pytest.raises(errors.WouldStart, match="this will start it"):
        tasks.update_task(anna, task, deps=[], goal="New", unless_it_starts=True)
    row = cast.fresh(task)
    assert (row.unmet_deps, row.goal, TaskDep.objects.filter(dependent=task).count()) == (1, "Write the notes", 1)
    assert tasks.update_task(anna, task, deps=["other"], unless_it_starts=True).landed
    tasks.update_task(anna, task, deps=[])
    assert claim_all(board) == ["task"]


@pytest.mark.parametrize("fields", [{"held": True}, {"holds": CONFIRM}])
def test_a_hold_or_a_question_blocks_whatever_is_taken_out(board, anna, fields):
    cast.filed(board, anna, id="first", assignee="reader")
    task = cast.filed(board, anna, id="task", deps=["first"], **fields)
    assert tasks.update_task(anna, task, deps=[], unless_it_starts=True).landed
    assert claim_all(board) == []


def test_a_release_together_with_the_last_dependency_taken_out_tells_too(board, anna):
    cast.filed(board, anna, id="first", assignee="reader")
    task = cast.filed(board, anna, id="task", deps=["first"], held=True)
    with pytest.raises(errors.WouldStart):
        tasks.update_task(anna, task, deps=[], status="pending", unless_it_starts=True)
    assert cast.fresh(task).status == "held"


def test_a_dependency_taken_out_and_put_back_in_one_request_starts_nothing(board, anna):
    cast.filed(board, anna, id="first", assignee="reader")
    task = cast.filed(board, anna, id="task", deps=["first"])
    tasks.update_task(anna, task, deps=["first"], title="T", unless_it_starts=True)
    assert claim_all(board) == []


def test_a_loop_is_refused_with_its_path_by_an_edit(board, anna):
    cast.filed(board, anna, id="a")
    cast.filed(board, anna, id="b", deps=["a"])
    cast.filed(board, anna, id="c", deps=["b"])
    root = tasks.get_task(anna, board, "a")
    with pytest.raises(errors.DependencyLoop, match="a → c → b → a"):
        tasks.update_task(anna, root, deps=["c"])
    with pytest.raises(errors.DependencyLoop, match="a → a"):
        tasks.update_task(anna, root, deps=["a"])
    assert not TaskDep.objects.filter(dependent=root).exists()
    assert cast.fresh(root).unmet_deps == 0


def test_a_loop_is_refused_with_its_path_by_a_filing(board, anna):
    with pytest.raises(errors.DependencyLoop, match="a → a"):
        cast.filed(board, anna, id="a", deps=["a"])
    batch = [Filing(goal=name, id=name, deps=[dep]) for name, dep in (("a", "b"), ("b", "c"), ("c", "b"))]
    with pytest.raises(errors.DependencyLoop, match="b → c → b"):
        tasks.file_tasks(anna, board, batch)
    assert not board.tasks.exists()


def test_a_batch_may_be_one_chain_as_long_as_a_batch_may_be(board, anna):
    names = [f"n{n}" for n in range(1_000)]
    batch = [Filing(goal=name, id=name, deps=names[n + 1 : n + 2]) for n, name in enumerate(names)]
    assert len(tasks.file_tasks(anna, board, batch)) == 1_000
    with pytest.raises(errors.DependencyLoop, match="n999 → n0 → n1 → "):
        tasks.update_task(anna, tasks.get_task(anna, board, "n999"), deps=["n0"])

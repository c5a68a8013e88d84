"""`update_task`: what may be edited when, and what is sent alone (spec: 01 section 4)."""

from __future__ import annotations

import pytest

from boards import errors, tasks
from boards.models import Event
from boards.states import Status
from boards.tasks import Recorded
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE_START = {
    "goal": "Another goal",
    "title": "T",
    "context": "c",
    "input": {"a": 1},
    "deps": [],
    "priority": 3,
    "labels": ["x"],
    "metadata": {"k": "v"},
    "assignee": "reader",
    "max_attempts": 2,
    "checker": "person",
    "status": "held",
}


@pytest.fixture
def board():
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board):
    return cast.chain_of(cast.make_member(board.space))


def kinds(task):
    return list(Event.objects.filter(task=task).order_by("id").values_list("kind", "from_status", "to_status"))


def in_status(board, anna, status):
    """A task that has come to `status` by the verbs; all but pending and held have been started."""
    task = cast.filed(board, anna, held=status == "held", checker="person" if status == "needs_check" else "none")
    if status in {"pending", "held"}:
        return task
    got = cast.claimed(board)
    agent = cast.agent_chain(board)
    if status in {"needs_check", "completed"}:
        tasks.complete(agent, task, "done", claim=got.ticket)
    if status == "errored":
        tasks.fail(agent, task, "no", claim=got.ticket)
    if status == "cancelled":
        tasks.end_for_good(agent, task, "no use", claim=got.ticket, ending="cancelled")
    assert cast.fresh(task).status == status
    return task


def test_the_table_names_every_field_that_may_be_edited():
    assert set(BEFORE_START) == {name for name, rule in tasks.TASK_FIELD_RULES.items() if rule == "before_start"}
    assert set(tasks.TASK_FIELD_RULES) - set(BEFORE_START) == {"due_at", "message"}


@pytest.mark.parametrize("status", Status.values)
@pytest.mark.parametrize("field", BEFORE_START)
def test_each_field_by_status(board, anna, field, status):
    task = in_status(board, anna, status)
    change = {field: BEFORE_START[field]}
    if status in {"pending", "held"}:
        assert tasks.update_task(anna, task, **change).landed
        return
    refusal = errors.FieldLocked if status in {"in_progress", "needs_check"} else errors.TaskFinished
    before = cast.fresh(task)
    with pytest.raises(refusal) as raised:
        tasks.update_task(anna, task, **change)
    assert cast.fresh(task).revision == before.revision
    if refusal is errors.FieldLocked:
        assert field in raised.value.sentence
        assert Status(status).label in raised.value.sentence


@pytest.mark.parametrize("status", Status.values)
@pytest.mark.parametrize("change", [{"status": "cancelled"}, {"message": "Shorter"}, {"due_at": None}])
def test_what_may_be_sent_until_it_finishes(board, anna, status, change):
    task = in_status(board, anna, status)
    if status in {"completed", "errored", "cancelled"}:
        with pytest.raises(errors.TaskFinished, match=r"File a follow-up\."):
            tasks.update_task(anna, task, **change)
    else:
        assert tasks.update_task(anna, task, **change).landed


def test_held_and_pending_hold_and_release_also_together_with_other_fields(board, anna):
    task = cast.filed(board, anna)
    assert tasks.update_task(anna, task, status="held").status == "held"
    assert tasks.update_task(anna, task, status="held").result is Recorded.UNCHANGED
    assert tasks.update_task(anna, task, status="pending", assignee="reader", goal="New").status == "pending"
    row = cast.fresh(task)
    assert (row.status, row.assignee, row.goal) == ("pending", "reader", "New")
    assert kinds(task)[1:] == [("task.held", "pending", "held"), ("task.released", "held", "pending")]
    assert tasks.update_task(anna, task, status="pending", title="T").result is Recorded.RECORDED
    assert kinds(task)[-1] == ("task.edited", "pending", "pending")


def test_a_cancel_and_a_message_are_sent_alone(board, anna):
    task = cast.filed(board, anna)
    with pytest.raises(errors.CancelTakesNoEdits):
        tasks.update_task(anna, task, status="cancelled", title="T")
    with pytest.raises(errors.MessageTakesNoEdits):
        tasks.update_task(anna, task, message="Shorter", priority=1)
    assert cast.fresh(task).revision == 1
    tasks.update_task(anna, task, message="Shorter")
    assert [steer["text"] for steer in cast.fresh(task).steers] == ["Shorter"]
    tasks.update_task(anna, task, status="cancelled")
    assert cast.fresh(task).cancelled_via == "person"


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({}, errors.NothingToUpdate),
        ({"status": "completed"}, errors.InvalidInput),
        ({"status": None}, errors.InvalidInput),
        ({"attempts": 3}, errors.InvalidInput),
        ({"follow_up_of": "a"}, errors.InvalidInput),
        ({"metadata": {"orchestra:x": 1}}, errors.InvalidInput),
        ({"message": "\u200b"}, errors.InvalidInput),
    ],
)
def test_what_no_caller_may_send(board, anna, fields, refusal):
    task = cast.filed(board, anna)
    with pytest.raises(refusal):
        tasks.update_task(anna, task, **fields)
    assert cast.fresh(task).revision == 1


def test_the_fifty_first_message_is_refused(board, anna):
    task = cast.filed(board, anna)
    for n in range(50):
        tasks.update_task(anna, task, message=f"Word {n}")
    with pytest.raises(errors.SteerLimit):
        tasks.update_task(anna, task, message="One more")


def test_who_may_not_hold_changes_nothing(board, anna):
    vera = cast.chain_of(cast.make_member(board.space, "vera", "viewer"))
    task = cast.filed(board, anna)
    for change in ({"status": "held"}, {"status": "cancelled"}, {"message": "x"}, {"title": "T"}):
        with pytest.raises(errors.Forbidden):
            tasks.update_task(vera, task, **change)
    assert cast.fresh(task).revision == 1


def test_a_refused_name_or_dependency_says_what_there_is_to_do(board, anna):
    """The same words as at the filing."""
    task, gone = cast.filed(board, anna), cast.filed(board, anna, "Gone")
    tasks.cancel(anna, gone)
    for change in ({"assignee": "nobody"}, {"checker": "nobody"}):
        with pytest.raises(errors.UnknownAssignee, match="There is writer, reader"):
            tasks.update_task(anna, task, **change)
    with pytest.raises(errors.UnknownAssignee, match="There is writer, reader"):
        tasks.set_assignee(anna, task, "nobody")
    with pytest.raises(errors.DependencyEnded, match="Retry it first, or leave it out"):
        tasks.update_task(anna, task, deps=[gone.public_id])
    with pytest.raises(errors.DependencyNotOnBoard, match="File it first, or leave it out"):
        tasks.update_task(anna, task, deps=["nowhere"])

"""The shape of inputs that a board asks for: another is refused, and what is ours is not judged (spec: 03)."""

from __future__ import annotations

import pytest

from boards import errors, tasks
from boards.actors import Chain
from boards.debts import paying
from boards.models import AgentCheck, Board, Task
from boards.states import Status
from boards.tasks import Filing
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)

SHAPE = {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}}


@pytest.fixture
def shaped(board: Board) -> Board:
    Board.objects.filter(pk=board.pk).update(input_schema=SHAPE)
    board.refresh_from_db()
    return board


@pytest.mark.parametrize(("given", "place"), [({}, "input/:"), ({"file": 5}, "input/file:")])
def test_an_input_of_another_shape_is_refused_with_its_place(shaped: Board, anna: Chain, given: object, place: str):
    with pytest.raises(errors.InvalidInput, match=place) as refused:
        tasks.file_task(anna, shaped, goal="Read", input=given)
    assert refused.value.facts["field"] == "input"
    assert not Task.objects.exists()


def test_the_right_shape_is_filed_and_an_edit_has_to_keep_it(shaped: Board, anna: Chain):
    task = tasks.file_task(anna, shaped, goal="Read", input={"file": "notes.md"})
    with pytest.raises(errors.InvalidInput, match="input/file"):
        tasks.update_task(anna, task, input={"file": None})
    tasks.update_task(anna, task, input={"file": "other.md"}, title="Other")
    assert cast.fresh(task).input == {"file": "other.md"}


def test_in_a_batch_the_wrong_one_is_named_and_none_is_filed(shaped: Board, anna: Chain):
    with pytest.raises(errors.InvalidInput) as refused:
        tasks.file_tasks(anna, shaped, [Filing("One", input={"file": "a"}), Filing("Two", input={"file": 1})])
    assert refused.value.facts["index"] == 1
    assert not Task.objects.exists()


def test_a_repeat_answers_its_first_result_although_the_shape_has_changed(board: Board, anna: Chain):
    first = tasks.file_task(anna, board, goal="Read", idempotency_key="k")
    Board.objects.filter(pk=board.pk).update(input_schema=SHAPE)
    board.refresh_from_db()
    assert tasks.file_task(anna, board, goal="Read", idempotency_key="k").pk == first.pk
    with pytest.raises(errors.InvalidInput):
        tasks.file_task(anna, board, goal="Read", idempotency_key="other")


def test_a_follow_up_goes_on_with_its_roots_input_and_one_of_its_own_is_judged(shaped: Board, anna: Chain):
    root = tasks.file_task(anna, shaped, goal="Read", input={"file": "notes.md"}, assignee=cast.WRITER)
    claimed = cast.claimed(shaped)
    tasks.complete(cast.agent_chain(shaped), root, "Read.", claim=claimed.ticket)
    assert tasks.file_task(anna, shaped, goal="The rest", follow_up_of=root.public_id).input == {}
    with pytest.raises(errors.InvalidInput):
        tasks.file_task(anna, shaped, goal="The end", follow_up_of=root.public_id, input={"file": 1})


def test_a_schema_that_judges_nothing_refuses_with_words_instead_of_breaking(board: Board, anna: Chain):
    Board.objects.filter(pk=board.pk).update(input_schema={"type": 5})
    board.refresh_from_db()
    with pytest.raises(errors.InvalidInput, match="cannot be judged by the board's schema"):
        tasks.file_task(anna, board, goal="Read")


def test_an_agents_check_has_an_input_of_our_own(shaped: Board, anna: Chain):
    task = tasks.file_task(anna, shaped, goal="Read", input={"file": "a"}, assignee=cast.WRITER, checker=cast.READER)
    claimed = cast.claimed(shaped)
    tasks.complete(cast.agent_chain(shaped), task, "Read.", claim=claimed.ticket)
    paying.pay_due()
    assert cast.fresh(task).status == Status.NEEDS_CHECK
    check = AgentCheck.objects.get(task=task).check_task
    assert check is not None
    assert check.input["result"] == "Read."

"""Follow-ups: filed against the root of a chain, run one at a time in its session (spec: 01 section 3)."""

from __future__ import annotations

import uuid

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from boards import errors, people, tasks
from boards.models import Event, Session, Task
from boards.tasks import Filing, HoldFiling, RunLink, Wanted
from boards.wire import task_wire
from boards.workers import idle
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def board():
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board):
    return cast.chain_of(cast.make_member(board.space))


def done(board, chain, task, output="Done."):
    """The writer takes the task and completes it."""
    got = cast.claimed(board)
    assert got.task.pk == task.pk
    tasks.complete(cast.agent_chain(board), task, output, claim=got.ticket)
    return task


def follow_up(board, chain, of, **fields):
    return tasks.file_task(chain, board, goal="Make it shorter", follow_up_of=of.public_id, **fields)


def claim_all(board):
    return [got.task.public_id for got in tasks.claim([Wanted(board.pk, {"writer": 9})], limit=9, claimed_by=cast.HERE)]


def test_it_is_stored_against_the_root_under_the_lowest_free_number_with_the_roots_assignee(board, anna):
    root = done(board, anna, cast.filed(board, anna, id="notes"))
    cast.filed(board, anna, id="notes-f2")
    first = follow_up(board, anna, root)
    assert (first.public_id, first.follow_up_of_id, first.assignee) == ("notes-f1", root.pk, "writer")
    assert Event.objects.get(task=first, kind="task.filed").data == {"follow_up_of": "notes"}
    tasks.cancel(anna, Task.objects.get(public_id="notes-f2"))
    done(board, anna, first)
    third = follow_up(board, anna, first)
    assert (third.public_id, third.follow_up_of_id) == ("notes-f3", root.pk)


def test_a_batch_numbers_its_follow_ups_in_order(board, anna):
    root = done(board, anna, cast.filed(board, anna, id="notes"))
    filings = [Filing(goal=f"Part {n}", follow_up_of=root.public_id) for n in range(3)]
    assert [t.public_id for t in tasks.file_tasks(anna, board, filings)] == ["notes-f1", "notes-f2", "notes-f3"]


def test_an_id_as_long_as_ids_may_be_still_has_follow_ups(board, anna):
    root = done(board, anna, cast.filed(board, anna, id="n" * 200))
    made = [follow_up(board, anna, root).public_id for _ in range(2)]
    assert made == ["n" * 192 + "-f1", "n" * 192 + "-f2"]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"follow_up_of": "nowhere"}, errors.TaskNotFound),
        ({"follow_up_of": "unrun"}, errors.FollowUpOfUnrun),
        ({"follow_up_of": "ran", "assignee": "reader"}, errors.FollowUpTakesNoAssignee),
        ({"follow_up_of": "ran", "assignee": "writer"}, errors.FollowUpTakesNoAssignee),
        ({"follow_up_of": "unrun", "assignee": "nobody"}, errors.FollowUpOfUnrun),
        ({"follow_up_of": "ran", "id": "mine"}, errors.InvalidInput),
        ({"follow_up_of": "ran", "checker": "writer"}, errors.InvalidInput),
    ],
)
def test_what_is_refused_writes_nothing_and_says_why(board, anna, fields, refusal):
    done(board, anna, cast.filed(board, anna, id="ran"))
    cast.filed(board, anna, id="unrun")
    before = Task.objects.count()
    with pytest.raises(refusal) as raised:
        tasks.file_task(anna, board, goal="More", **fields)
    assert raised.value.sentence.endswith(".")
    assert Task.objects.count() == before


def test_a_task_of_the_same_batch_never_ran(board, anna):
    batch = [Filing(goal="First", id="a"), Filing(goal="Then", follow_up_of="a")]
    with pytest.raises(errors.FollowUpOfUnrun):
        tasks.file_tasks(anna, board, batch)


def test_it_is_nobodys_twin(board, anna):
    root = done(board, anna, cast.filed(board, anna))
    follow_up(board, anna, root)
    follow_up(board, anna, root)
    tasks.file_task(anna, board, goal="Make it shorter", assignee="writer")


def test_follow_ups_of_one_root_run_one_at_a_time_and_others_beside_them(board, anna):
    root = done(board, anna, cast.filed(board, anna, id="a"))
    other = done(board, anna, cast.filed(board, anna, id="b"))
    for _ in range(2):
        follow_up(board, anna, root)
        follow_up(board, anna, other)
    first, second = tasks.claim([Wanted(board.pk, {"writer": 9})], limit=9, claimed_by=cast.HERE)
    assert {first.task.public_id, second.task.public_id} == {"a-f1", "b-f1"}
    assert claim_all(board) == []
    assert tasks.at_work(Task.objects.get(public_id="a-f2")).public_id == "a-f1"
    tasks.complete(cast.agent_chain(board), first.task, None, claim=first.ticket)
    assert claim_all(board) == ["a-f2"]


def test_what_cannot_start_takes_no_slot_from_what_can(board, anna):
    root = done(board, anna, cast.filed(board, anna, id="a"))
    for _ in range(3):
        follow_up(board, anna, root)
    assert cast.claimed(board).task.public_id == "a-f1"
    free = cast.filed(board, anna, id="free")
    assert cast.claimed(board).task.pk == free.pk


def test_a_follow_up_waits_while_its_root_works_and_the_root_while_a_follow_up_does(board, anna):
    root = cast.filed(board, anna, id="a", max_attempts=5)
    agent = cast.agent_chain(board)
    working = cast.claimed(board)
    child = follow_up(board, anna, root)
    assert claim_all(board) == []
    tasks.fail(agent, root, "no", claim=working.ticket)
    assert claim_all(board) == ["a"]  # both are Ready; the older goes first, alone
    assert claim_all(board) == []
    tasks.fail(agent, root, "no", claim=tasks.mint(cast.fresh(root), root.attempt_rows.last().pk), for_good=True)
    assert claim_all(board) == [child.public_id]
    tasks.retry(anna, root)
    assert cast.fresh(root).status == "pending"
    assert claim_all(board) == []


def test_a_person_starts_no_second_one_of_a_chain(board, anna):
    ben = cast.make_member(board.space, "ben")
    cast.put_on_roster(board, ben)
    bens = cast.chain_of(ben)
    root = cast.filed(board, anna, assignee="ben")
    got = tasks.claim_for_person(bens, root)
    tasks.complete(bens, root, None, claim=got.ticket)
    one, two = follow_up(board, anna, root), follow_up(board, anna, root)
    tasks.claim_for_person(bens, one)
    with pytest.raises(errors.IllegalTaskTransition, match="one at a time"):
        tasks.claim_for_person(bens, two)


def test_the_database_itself_lets_one_follow_up_of_a_root_work(board, anna):
    root = done(board, anna, cast.filed(board, anna))
    one, two = follow_up(board, anna, root), follow_up(board, anna, root)
    with pytest.raises(IntegrityError, match="task_one_follow_up_at_work"), transaction.atomic():
        Task.objects.filter(pk__in=[one.pk, two.pk]).update(status="in_progress")


def test_a_pass_is_not_kept_going_by_follow_ups_behind_one_that_waits_on_a_person(board, anna):
    root = done(board, anna, cast.filed(board, anna))
    one, _two = follow_up(board, anna, root), follow_up(board, anna, root)
    assert idle.standing(board).moving == 2
    got = cast.claimed(board)
    assert got.task.pk == one.pk
    assert idle.standing(board).moving == 1
    people.open_hold(cast.agent_chain(board), claim=got.ticket, kind="question", prompt="Which?")
    people.suspend(got.ticket)
    assert idle.standing(board).moving == 0


def test_its_assignee_cannot_be_changed_by_an_edit_or_a_release(board, anna):
    root = done(board, anna, cast.filed(board, anna))
    child = follow_up(board, anna, root, held=True)
    with pytest.raises(errors.FollowUpTakesNoAssignee):
        tasks.update_task(anna, child, assignee="reader")
    with pytest.raises(errors.FollowUpTakesNoAssignee):
        tasks.release(anna, child, assignee="reader")
    tasks.release(anna, child, assignee="writer")


def test_it_may_carry_a_question_of_its_own(board, anna):
    root = done(board, anna, cast.filed(board, anna))
    child = follow_up(board, anna, root, holds=[HoldFiling(kind="confirm", prompt="Really?")])
    assert claim_all(board) == []
    people.answer_hold(anna, child.holds.get().pk, choice="yes")
    assert claim_all(board) == [child.public_id]


def test_reads_of_the_root_carry_the_latest_completed_follow_up(board, anna):
    root = done(board, anna, cast.filed(board, anna, id="a"), "v1")
    assert tasks.get_task(anna, board, "a").current is None
    assert "current" not in task_wire(tasks.get_task(anna, board, "a"))
    one, two = follow_up(board, anna, root), follow_up(board, anna, root)
    done(board, anna, one, "v2")
    assert tasks.get_task(anna, board, "a").current == one
    done(board, anna, two, "x" * 20_001)
    follow_up(board, anna, root)
    listed = {task.public_id: task.current for task in tasks.list_tasks(anna, board)}
    assert listed == {"a": two, "a-f1": None, "a-f2": None, "a-f3": None}
    wire = task_wire(tasks.get_task(anna, board, "a"))["current"]
    assert (wire["id"], wire["output_cut"], len(wire["output"])) == ("a-f2", True, 20_000)
    Task.objects.filter(pk=one.pk).update(completed_at=Now())
    assert task_wire(tasks.get_task(anna, board, "a"))["current"] == {"id": "a-f1", "output": "v2"}


def test_rows_in_session_are_what_ran_there_with_their_chains_in_board_order(board, anna):
    session = Session.objects.create(space=board.space, kind="task_run")
    agent = cast.agent_chain(board)
    elsewhere = cast.filed(board, anna, id="z")
    root = cast.filed(board, anna, id="a")
    for got in tasks.claim([Wanted(board.pk, {"writer": 2})], limit=2, claimed_by=cast.HERE):
        if got.task.pk == root.pk:
            tasks.link_run(agent, got.ticket, session.pk, "r1")
        tasks.complete(agent, got.task, None, claim=got.ticket)
    follow_up(board, anna, elsewhere)
    follow_up(board, anna, root)
    follow_up(board, anna, root, held=True)
    assert [row.public_id for row in tasks.rows_in_session(board, session)] == ["a", "a-f1", "a-f2"]
    assert [row.public_id for row in tasks.rows_in_session(board, session.pk)] == ["a", "a-f1", "a-f2"]
    assert tasks.rows_in_session(board, uuid.uuid4()) == []


def test_a_row_whose_link_names_another_session_since_ran_elsewhere(board, anna):
    old, new = (Session.objects.create(space=board.space, kind="task_run") for _ in range(2))
    agent = cast.agent_chain(board)
    task = cast.filed(board, anna, max_attempts=3)
    for session in (old, new):
        got = cast.claimed(board)
        tasks.link_runs([RunLink(agent, got.ticket, session.pk, "r")])
        tasks.fail(agent, task, "no", claim=got.ticket)
    assert tasks.rows_in_session(board, old) == []
    assert tasks.rows_in_session(board, new) == [task]

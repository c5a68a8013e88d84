"""Who may accept and send back, judged on the row that is written and not on one read before (spec: 04 section 5)."""

from __future__ import annotations

import pytest

from boards import errors, tasks
from boards.tasks import verbs
from tests import cast
from tests.engine.test_cascade import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def people_(board, space):
    """Anna and Bert, both on the roster."""
    members = [cast.make_member(space, name) for name in ("anna", "bert")]
    for member in members:
        cast.put_on_roster(board, member)
    return [cast.chain_of(member) for member in members]


def worked_by(chain, task):
    return tasks.claim_for_person(chain, task).ticket


@pytest.mark.parametrize("verb", [tasks.accept, lambda chain, task: tasks.send_back(chain, task, "Again")])
def test_whoever_hands_in_between_the_look_and_the_write_does_not_check_it(board, people_, monkeypatch, verb):
    anna, _ = people_
    task = cast.filed(board, anna, assignee="anna", checker="person")
    ticket = worked_by(anna, task)
    seen = verbs._visible

    def then_handed_in(chain, row, action):
        found = seen(chain, row, action)
        monkeypatch.setattr(verbs, "_visible", seen)
        elsewhere(lambda: tasks.complete(anna, task, "mine", claim=ticket))
        return found

    monkeypatch.setattr(verbs, "_visible", then_handed_in)
    with pytest.raises(errors.Forbidden, match="You handed this in"):
        verb(anna, task)
    assert cast.fresh(task).status == "needs_check"


def test_only_the_named_checker_checks(board, people_):
    anna, bert = people_
    task = cast.filed(board, anna, assignee="writer", checker="bert")
    tasks.complete(cast.agent_chain(board), task, "v1", claim=cast.claimed(board).ticket)
    with pytest.raises(errors.Forbidden, match="bert"):
        tasks.accept(anna, task)
    assert tasks.accept(bert, task).landed


def test_a_repeat_of_an_accept_changes_nothing(board, people_):
    anna, _ = people_
    task = cast.filed(board, anna, checker="person")
    tasks.complete(cast.agent_chain(board), task, "v1", claim=cast.claimed(board).ticket)
    assert [tasks.accept(anna, task).result.value for _ in range(2)] == ["recorded", "unchanged"]


def test_releasing_to_the_checker_is_refused(board, people_):
    anna, _ = people_
    task = tasks.file_task(anna, board, goal="x", held=True, checker="bert")
    with pytest.raises(errors.InvalidInput, match="checker"):
        tasks.release(anna, task, assignee="bert")
    assert cast.fresh(task).status == "held"


def handed_in(board, anna, output="v1", **fields):
    task = cast.filed(board, anna, checker="person", **fields)
    tasks.complete(cast.agent_chain(board), task, output, claim=cast.claimed(board).ticket)
    return task


def test_the_first_word_wins_and_the_second_hears_who_what_and_when(board, people_):
    anna, bert = people_
    task = handed_in(board, anna)
    tasks.accept(bert, task, shown=1)
    for late in (
        lambda: tasks.send_back(anna, task, "Too long", shown=1),
        lambda: tasks.accept(anna, task, shown=1),
    ):
        with pytest.raises(errors.AlreadyChecked, match=r"^Bert accepted this at \d\d:\d\d UTC\.$"):
            late()
    assert cast.fresh(task).status == "completed"


def test_a_result_that_was_sent_back_says_with_which_words(board, people_):
    anna, bert = people_
    task = handed_in(board, anna)
    tasks.send_back(bert, task, "Too long", shown=1)
    with pytest.raises(errors.AlreadyChecked, match=r"^Bert sent this back at \d\d:\d\d UTC: “Too long”\.$"):
        tasks.accept(anna, task, shown=1)
    assert cast.fresh(task).status == "pending"


def test_a_result_that_nobody_has_read_is_not_accepted(board, people_):
    """Sent back and handed in again while Anna still read the first one."""
    anna, bert = people_
    task = handed_in(board, anna)
    tasks.send_back(bert, task, "Too long", shown=1)
    tasks.complete(cast.agent_chain(board), task, "v2", claim=cast.claimed(board).ticket)
    with pytest.raises(errors.DraftChanged, match="handed in again"):
        tasks.accept(anna, task, shown=1)
    assert cast.fresh(task).status == "needs_check"
    assert tasks.accept(anna, task, shown=2).landed


def test_the_same_form_sent_twice_answers_the_same(board, people_):
    anna, _ = people_
    task = handed_in(board, anna)
    said = [tasks.send_back(anna, task, "Too long", shown=1).result.value for _ in range(2)]
    assert said == ["recorded", "unchanged"]
    with pytest.raises(errors.AlreadyChecked):
        tasks.send_back(anna, task, "Too short", shown=1)


def test_what_was_cancelled_meanwhile_says_so(board, people_):
    anna, bert = people_
    task = handed_in(board, anna)
    tasks.cancel(bert, task, "Not wanted")
    with pytest.raises(errors.AlreadyChecked, match="Bert cancelled this at"):
        tasks.accept(anna, task, shown=1)

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

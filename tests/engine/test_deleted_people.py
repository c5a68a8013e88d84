"""A person is deleted: what only they could decide is not open to everybody afterwards."""

from __future__ import annotations

import pytest

from boards import errors, people, tasks
from boards.models import Hold
from boards.queries.needs_you import waiting
from tests import cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def ben(space):
    return cast.make_member(space, "ben")


def asked_of(member, board, chain):
    task = cast.filed(board, chain)
    ticket = cast.claimed(board).ticket
    hold = people.open_hold(cast.agent_chain(board), claim=ticket, kind="question", prompt="Which?")
    people.suspend(ticket)
    Hold.objects.filter(pk=hold.pk).update(assignee=member.user)
    return task, Hold.objects.get(pk=hold.pk)


def test_a_question_to_somebody_who_is_deleted_waits_on_operators(space, board, anna, ben):
    task, hold = asked_of(ben, board, anna)
    carla, olga = cast.make_member(space, "carla"), cast.make_member(space, "oskar", "operator")
    ben.user.delete()
    hold.refresh_from_db()
    assert (hold.assignee_id, hold.assignee_role, hold.state) == (None, "operator", "open")
    with pytest.raises(errors.NotFound):
        people.answer_hold(cast.chain_of(carla), hold.pk, text="Mine now")
    assert waiting(carla).total == 0
    assert [row.title for row in waiting(olga).rows] == ["Which?"]
    people.answer_hold(cast.chain_of(olga), hold.pk, text="This one")
    assert cast.fresh(task).resume_ready_at is not None


def test_what_was_asked_of_everybody_stays_so(space, board, anna, ben):
    filed = cast.filed(board, anna, holds=[tasks.HoldFiling(kind="confirm", prompt="Sure?")])
    ben.user.delete()
    hold = filed.holds.get()
    assert (hold.assignee_id, hold.assignee_role) == (None, "")
    people.answer_hold(anna, hold.pk, choice="yes")

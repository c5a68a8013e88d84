"""The page of a task whose due time passed: it says so in words, and offers nothing that would reopen it."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from boards import actors, people, tasks
from boards.models import Debt
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_page_says_that_the_due_time_passed_and_every_act_is_refused() -> None:
    space = cast.make_space()
    board, member = cast.make_board(space), cast.make_member(space)
    task = cast.filed(board, cast.chain_of(member))
    ticket = cast.claimed(board).ticket
    hold = people.open_hold(cast.agent_chain(board), claim=ticket, kind="question", prompt="Which?")
    tasks.withdraw(actors.service("flows", space.pk), task)
    assert Debt.objects.filter(kind="session_stop").exists(), "the question still stands while its worker is stopped"
    client = Client()
    client.force_login(member.user)
    place = [board.slug, task.public_id]
    page = client.get(reverse("web:task", args=place)).content.decode()
    assert "the due time passed" in page
    assert 'value="withdraw"' not in page
    fragment = {"HX-Request": "true"}
    for verb in ("retry", "accept", "release", "start_anyway"):
        answer = client.post(reverse("web:task_act", args=[*place, verb]), headers=fragment)
        assert answer.status_code == 409, verb
    late = client.post(reverse("web:answer_hold", args=[hold.pk]), {"text": "a"}, headers=fragment)
    assert late.status_code == 409
    assert "The due time passed" in late.content.decode()
    assert client.post(reverse("web:task_act", args=[*place, "withdraw"])).status_code == 404

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


def test_it_is_filed_again_from_its_page_and_what_waits_for_it_waits_for_the_new_one() -> None:
    space = cast.make_space()
    board, member = cast.make_board(space), cast.make_member(space)
    anna = cast.chain_of(member)
    old = cast.filed(board, anna, "Old")
    waiting = cast.filed(board, anna, "Waiting", deps=[old.public_id])
    client = Client()
    client.force_login(member.user)
    address, act = reverse("web:task", args=[board.slug, old.public_id]), [board.slug, old.public_id]
    assert "File it again" not in client.get(address).content.decode()
    assert client.post(reverse("web:file_again", args=act), headers={"HX-Request": "true"}).status_code == 409
    tasks.withdraw(actors.service("flows", space.pk), old)
    page = client.get(address).content.decode()
    assert "File it again as a new task" in page
    assert "The task that depends on it keeps waiting." in page
    went = client.post(reverse("web:file_again", args=act), {"in_its_place": "on"})
    new = waiting.dep_edges.get().dependency
    assert new.pk != old.pk
    assert went.headers["Location"] == reverse("web:task", args=[board.slug, new.public_id])
    assert cast.fresh(old).status == "cancelled"

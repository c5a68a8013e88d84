"""The link in a message: one question, for the member who was told, with the form; it decides nothing and it ends."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from boards import people, tasks
from boards.models import Delivery, Hold, Member
from tests import cast
from tests.telling.conftest import Stage


@pytest.fixture
def link(stage: Stage) -> str:
    """The path of the link in Anna's mail about one question."""
    stage.tell()
    stage.ask("Which name stays?")
    stage.told()
    return path(stage)


def path(stage: Stage) -> str:
    text = stage.mail.mails[-1].get_body(("plain",)).get_content()
    return re.search(r"https://board\.example\.org(/told/\S+)", text)[1]


def client_of(member: Member) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


def test_it_shows_the_question_with_its_form_and_decides_nothing(stage: Stage, link: str) -> None:
    for _ in range(3):
        answer = client_of(stage.anna).get(link)
        assert answer.status_code == 200
    page = answer.content.decode()
    hold = Hold.objects.get()
    assert "Which name stays?" in page
    assert f'action="{reverse("web:answer_hold", args=[hold.pk])}"' in page
    assert hold.state == "open"
    assert answer.headers["Cache-Control"].startswith("max-age=0") or "no-store" in answer.headers["Cache-Control"]


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_it_takes_nothing_but_reading(stage: Stage, link: str, method: str) -> None:
    answer = getattr(client_of(stage.anna), method)(link, {"choice": "a"})
    assert answer.status_code == 405
    assert Hold.objects.get().state == "open"


def test_the_form_on_it_answers_as_every_other(stage: Stage, link: str) -> None:
    anna = client_of(stage.anna)
    page = anna.get(link).content.decode()
    fields = dict(re.findall(r'name="(next|key|shown_hash|from)" value="([^"]*)"', page))
    answer = anna.post(reverse("web:answer_hold", args=[Hold.objects.get().pk]), {**fields, "choice": "a"}, follow=True)
    assert Hold.objects.get().state == "answered"
    assert answer.redirect_chain[0][0] == link
    assert answer.status_code == 410, "the question is closed, and so is the link"


def test_a_stranger_is_sent_to_sign_in_and_comes_back(stage: Stage, link: str) -> None:
    answer = Client().get(link)
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"{reverse('web:sign_in')}?next={link}"
    assert "Which name" not in Client().get(link, follow=True).content.decode()


def test_for_anybody_else_it_does_not_exist(stage: Stage, link: str) -> None:
    assert client_of(stage.olga).get(link).status_code == 404


def test_once_the_question_is_closed_it_says_what_became_of_it(stage: Stage, link: str) -> None:
    people.answer_hold(cast.chain_of(stage.olga), Hold.objects.get().pk, choice="a")
    answer = client_of(stage.anna).get(link)
    assert answer.status_code == 410
    page = answer.content.decode()
    assert "Olga answered “A”" in page
    assert '<form class="ask-body"' not in page


@pytest.mark.parametrize(
    "change", [lambda t: t[:-2] + "/", lambda t: t.replace("/told/", "/told/1"), lambda t: "/told/1.x/"]
)
def test_a_link_that_we_did_not_make_does_not_exist(stage: Stage, link: str, change: Any) -> None:
    assert client_of(stage.anna).get(change(link)).status_code == 404


def test_it_ends_with_its_delivery(stage: Stage, link: str) -> None:
    Delivery.objects.all().delete()
    assert client_of(stage.anna).get(link).status_code == 404


def test_it_ends_with_the_membership(stage: Stage, link: str) -> None:
    Member.objects.filter(pk=stage.anna.pk).delete()
    other = cast.make_space("elsewhere")
    Member.objects.create(space=other, user=stage.anna.user)
    assert client_of(stage.anna).get(link).status_code == 404


def test_a_question_that_was_given_to_somebody_else_is_not_shown(stage: Stage, link: str) -> None:
    Hold.objects.update(assignee=stage.olga.user)
    assert client_of(stage.anna).get(link).status_code == 404


def test_it_shows_the_space_that_it_is_about(stage: Stage, link: str) -> None:
    """Anna's first space by name is another one; the form has to reach the question all the same."""
    Member.objects.create(space=cast.make_space("aardvark"), user=stage.anna.user)
    anna = client_of(stage.anna)
    assert anna.get(link).status_code == 200
    anna.post(reverse("web:answer_hold", args=[Hold.objects.get().pk]), {"choice": "a", "key": "k"})
    assert Hold.objects.get().state == "answered"


def test_for_other_rows_it_leads_to_their_page(stage: Stage) -> None:
    stage.tell()
    cast.filed(stage.board, stage.chain, "Write it", id="it", checker="person")
    got = cast.claimed(stage.board)
    tasks.complete(cast.agent_chain(stage.board), got.task, "Words", claim=got.ticket)
    stage.told()
    answer = client_of(stage.anna).get(path(stage))
    assert answer.headers["Location"] == reverse("web:task", args=["desk", "it"])

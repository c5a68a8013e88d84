"""The page of a member's keys: made, shown once, replaced and revoked; nobody sees another's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test.utils import CaptureQueriesContext

from boards import keys
from boards.models import AgentKey
from tests import cast
from tests.web.desk import Desk

pytestmark = pytest.mark.django_db
PAGE = "/me/keys/"
SECRET = re.compile(r"ork_[A-Za-z0-9_-]{43}")
FORM = {"name": "ghostwriter", "scopes": ["read", "file"], "every_board": "yes", "ends": "90"}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def html(answer: Any) -> str:
    return answer.content.decode()


def test_a_key_is_shown_once_and_works(desk: Desk) -> None:
    client = desk.client()
    answer = client.post(PAGE, FORM)
    (secret,) = SECRET.findall(html(answer))
    key = keys.find(secret)
    assert key is not None
    assert (key.member, key.scopes, key.every_board) == (desk.anna, ["read", "file"], True)
    assert key.expires_at is not None
    assert "no-store" in answer.headers["Cache-Control"]
    again = html(client.get(PAGE))
    assert not SECRET.search(again)
    assert key.prefix in again
    assert "ghostwriter" in again
    stored = [session.get_decoded() for session in Session.objects.all()]
    assert secret not in str(stored)
    assert secret not in str(answer.headers)


def test_what_is_wrong_is_said_and_what_was_chosen_stays(desk: Desk) -> None:
    wrong = FORM | {"scopes": ["work", "decide"], "every_board": "no", "boards": [desk.board.pk], "ends": "7"}
    answer = desk.client().post(PAGE, wrong)
    page = html(answer)
    assert answer.status_code == 422
    assert "A key that works on tasks decides nothing" in page
    kept = re.findall(r'name="(\w+)" value="(\w+)" checked', page)
    wanted = [("scopes", "work"), ("scopes", "decide"), ("every_board", "no"), ("boards", str(desk.board.pk))]
    assert [each for each in kept if each[0] in {"scopes", "every_board", "boards"}] == wanted
    assert '<option value="7" selected>' in page
    assert not AgentKey.objects.exists()
    none = desk.client().post(PAGE, FORM | {"every_board": "no"})
    assert "Choose the boards of the key" in html(none)


def test_one_for_a_board_that_never_ends(desk: Desk) -> None:
    desk.client().post(PAGE, FORM | {"every_board": "no", "boards": [desk.board.pk], "ends": ""})
    key = AgentKey.objects.get()
    assert (key.every_board, list(key.boards.all()), key.expires_at) == (False, [desk.board], None)


def test_it_is_replaced_and_revoked(desk: Desk) -> None:
    client = desk.client()
    (first,) = SECRET.findall(html(client.post(PAGE, FORM)))
    key = AgentKey.objects.get()
    (second,) = SECRET.findall(html(client.post(f"{PAGE}{key.pk}/rotate", {"keep_old": "1"})))
    assert keys.find(first) == keys.find(second) == key
    (third,) = SECRET.findall(html(client.post(f"{PAGE}{key.pk}/rotate")))
    assert keys.find(second) is None
    answer = client.post(f"{PAGE}{key.pk}/revoke", follow=True)
    assert "“ghostwriter” is revoked." in html(answer)
    assert "1 that no longer works" in html(answer)
    assert keys.find(third) is None


def test_nobody_sees_or_touches_anothers(desk: Desk) -> None:
    (secret,) = SECRET.findall(html(desk.client().post(PAGE, FORM)))
    key = AgentKey.objects.get()
    for member in (desk.ben, desk.olga, desk.vera):
        client = desk.client(member)
        assert "ghostwriter" not in html(client.get(PAGE))
        for verb in ("rotate", "revoke"):
            assert client.post(f"{PAGE}{key.pk}/{verb}").status_code == 404
    assert keys.find(secret) == key


def test_a_viewer_is_told_who_makes_keys(desk: Desk) -> None:
    client = desk.client(desk.vera)
    assert "Members of the space make keys." in html(client.get(PAGE))
    assert client.post(PAGE, FORM).status_code == 403
    assert not AgentKey.objects.exists()


@pytest.mark.parametrize("path", ["1/revoke", "99999999999999999999/revoke", "1/steal"])
def test_what_is_not_there_is_404(desk: Desk, path: str) -> None:
    assert desk.client().post(PAGE + path).status_code == 404


def test_it_reads_as_much_for_many_keys_as_for_one(desk: Desk) -> None:
    client = desk.client()
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            client.get(PAGE)
        counts.append(len(queries))
        for _ in range(5):
            keys.make(cast.chain_of(desk.anna), keys.KeyFields("bot", ["read"], [desk.board.pk]))
    with CaptureQueriesContext(connection) as queries:
        client.get(PAGE)
    assert len(queries) == counts[1]


def test_odd_signs_in_the_form_are_no_fault(desk: Desk) -> None:
    odd = {"name": "a\0b", "scopes": ["read", "\0"], "boards": ["x", "²", "9" * 30], "ends": "²", "every_board": "no"}
    assert desk.client().post(PAGE, odd).status_code == 422

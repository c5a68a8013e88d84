"""Getting in: password, one-time link, lock-out; and the password page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.test import Client

from boards.models import Member, SigninLink, User
from boards.signin import make_signin_link
from tests.cast import make_member, make_space

pytestmark = pytest.mark.django_db


@pytest.fixture
def anna() -> Member:
    return make_member(make_space())


@pytest.fixture
def link(anna: Member) -> str:
    anna.user.set_unusable_password()
    anna.user.save()
    return make_signin_link(anna.user)


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_a_password_signs_in_and_leads_to_where_one_was_going(client: Client, anna: Member) -> None:
    anna.user.set_password("a fine long one")
    anna.user.save()
    response = client.post("/sign-in/", {"username": "anna", "password": "a fine long one", "next": "/b/"})
    assert response["Location"] == "/b/"
    assert client.get("/sign-in/").status_code == 302  # already in


def test_a_next_that_is_not_ours_is_ignored(client: Client, anna: Member) -> None:
    anna.user.set_password("a fine long one")
    anna.user.save()
    form = {"username": "anna", "password": "a fine long one", "next": "https://evil.example/"}
    assert client.post("/sign-in/", form)["Location"] == "/"


def test_a_wrong_password_is_a_sentence_and_keeps_the_name(client: Client, anna: Member) -> None:
    html = client.post("/sign-in/", {"username": "anna", "password": "no"}).content.decode()
    assert "do not go together" in html
    assert 'value="anna"' in html


def test_too_many_wrong_passwords_lock_with_a_sentence(client: Client, anna: Member) -> None:
    answers = [client.post("/sign-in/", {"username": "anna", "password": str(n)}) for n in range(6)]
    assert answers[-1].status_code == 429
    assert "locked from here for 15 minutes" in answers[-1].content.decode()


def test_opening_the_link_uses_nothing_and_pressing_the_button_signs_in_once(client: Client, link: str) -> None:
    assert "This link signs you in as <b>Anna</b>" in client.get(link).content.decode()
    assert client.get(link).status_code == 200
    assert not is_in(client)
    assert client.post(link)["Location"] == "/password/"
    assert is_in(client)
    second = Client()
    assert second.post(link).status_code == 410
    assert not is_in(second)
    assert "does not work any more" in second.get(link).content.decode()


def test_a_used_link_leads_home_whoever_is_in(client: Client, link: str) -> None:
    client.post(link)
    assert client.get(link)["Location"] == "/"
    assert client.post(link)["Location"] == "/"


def test_a_link_runs_out_by_the_clock_of_the_database(client: Client, link: str) -> None:
    SigninLink.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert client.post(link).status_code == 410
    assert not is_in(client)


@pytest.mark.parametrize("change", ["password", "inactive"])
def test_a_link_is_void_once_its_user_has_a_password_or_is_switched_off(
    client: Client, link: str, anna: Member, change: str
) -> None:
    user = User.objects.get(pk=anna.user_id)
    if change == "password":
        user.set_password("a fine long one")
    user.is_active = change != "inactive"
    user.save()
    assert client.post(link).status_code == 410


def test_only_a_hash_of_the_token_is_stored(link: str) -> None:
    token = link.rstrip("/").rpartition("/")[2]
    assert token not in str(list(SigninLink.objects.values()))
    assert len(token) > 40


def test_after_the_link_a_password_can_be_set_or_left(client: Client, link: str) -> None:
    client.post(link)
    assert "Not now" in client.get("/password/").content.decode()
    short = client.post("/password/", {"new_password1": "short", "new_password2": "short"})
    assert 'role="alert"' in short.content.decode()
    done = client.post("/password/", {"new_password1": "Fence-42-post", "new_password2": "Fence-42-post"})
    assert done["Location"] == "/"
    assert is_in(client)
    assert User.objects.get().has_usable_password()
    assert "Old password" in client.get("/password/").content.decode()


def test_signing_out_needs_a_press_of_the_button(client: Client, anna: Member) -> None:
    client.force_login(anna.user)
    assert client.get("/sign-out/").status_code == 405
    assert is_in(client)
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert not is_in(client)


def test_a_person_without_a_space_is_told_whom_to_ask(client: Client) -> None:
    client.force_login(User.objects.create_user("nobody"))
    response = client.get("/")
    assert response.status_code == 403
    assert "Ask an operator to add you" in response.content.decode()


def test_a_member_of_two_spaces_changes_between_them(client: Client, anna: Member) -> None:
    other = make_space("other")
    Member.objects.create(space=other, user=anna.user)
    client.force_login(anna.user)
    assert 'dir="auto">Halyard</h1>' in client.get("/").content.decode()
    client.post("/space/", {"space": "other"})
    assert 'dir="auto">Other</h1>' in client.get("/").content.decode()
    make_space("closed")
    assert client.post("/space/", {"space": "closed"}).status_code == 404

"""The page of notifications, and the news that a page tells by itself."""

from __future__ import annotations

import json
import re
from datetime import time, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from boards import people
from boards.models import Board, Member, Preference, User
from boards.telling import addresses
from tests import cast
from tests.telling.conftest import Stage

PAGE = "/me/notifications/"


def client_of(member: Member, **headers: str) -> Client:
    client = Client(headers=headers)
    client.force_login(member.user)
    return client


@pytest.fixture
def anna(stage: Stage) -> Client:
    return client_of(stage.anna)


def form(stage: Stage, **changes: Any) -> dict[str, Any]:
    filled = {
        "webhook_url": "",
        "kinds": ["gate", "approval", "question", "input"],
        "boards": [str(stage.board.pk)],
        "pace": "at_once",
        "digest_at": "08:00",
        "quiet_from": "",
        "quiet_to": "",
        "zone": "Europe/Copenhagen",
    } | changes
    return {name: value for name, value in filled.items() if value is not None}


def test_the_persons_menu_leads_to_it(anna: Client) -> None:
    assert f'href="{PAGE}"' in anna.get("/").content.decode()


def test_before_anything_is_turned_on_everything_is_off_and_every_kind_and_board_is_told(anna: Client) -> None:
    page = anna.get(PAGE).content.decode()
    for name in ("browser", "sound", "email", "webhook"):
        tick = page[page.index(f'name="{name}"') :].partition(">")[0]
        assert "checked" not in tick, name
    assert page.count('name="kinds"') == len(re.findall(r'name="kinds" value="\w+" checked', page)) >= 10
    assert len(re.findall(r'name="boards" value="\d+" checked', page)) == 1
    assert Preference.objects.count() == 0


def test_what_is_chosen_is_kept_and_shown_again(stage: Stage, anna: Client) -> None:
    sent = form(
        stage, browser="1", sound="1", email="1", webhook="1", webhook_url=stage.hook.url, kinds=["question"],
        boards=[], pace="daily", digest_at="07:30", quiet_from="22:00", quiet_to="06:45",
    )  # fmt: skip
    answer = anna.post(PAGE, sent, follow=True)
    assert answer.redirect_chain == [(PAGE, 302)]
    told = Preference.objects.get(member=stage.anna)
    assert None not in (told.browser_since, told.email_since, told.webhook_since)
    assert (told.pace, told.digest_at, told.quiet_from, told.quiet_to) == ("daily", time(7, 30), time(22), time(6, 45))
    assert "question" not in told.muted_kinds
    assert "approval" in told.muted_kinds
    assert list(told.muted_boards.all()) == [stage.board]
    page = answer.content.decode()
    assert "Saved." in page
    for words in ('value="07:30"', 'value="22:00"', 'value="06:45"', "<option selected>Europe/Copenhagen", "whsec_"):
        assert words in page


def test_saving_again_keeps_the_moment_from_which_a_channel_tells(stage: Stage, anna: Client) -> None:
    anna.post(PAGE, form(stage, email="1"))
    since = Preference.objects.get().email_since
    anna.post(PAGE, form(stage, email="1", pace="hourly"))
    assert Preference.objects.get().email_since == since
    anna.post(PAGE, form(stage))
    assert Preference.objects.get().email_since is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"quiet_from": "22:00"}, "Quiet hours need a beginning and an end"),
        ({"quiet_from": "25:00", "quiet_to": "07:00"}, "Write a time like 22:00."),
        ({"digest_at": "noon"}, "Write a time like 22:00."),
        ({"zone": "Atlantis"}, "Choose a time zone of the list."),
        ({"pace": "never"}, "Choose how often."),
        ({"webhook": "1"}, "Write the whole address"),
        ({"webhook_url": "http://10.0.0.1/x"}, "Use https://."),
        ({"webhook_url": "https://[::1]/x"}, "lies in a private network"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_is_kept(
    stage: Stage, anna: Client, changes: dict[str, str], sentence: str
) -> None:
    answer = anna.post(PAGE, form(stage, sound="1", **changes))
    page = answer.content.decode()
    assert answer.status_code == 422
    assert sentence in page
    for name, value in changes.items():
        if name not in {"webhook", "pace", "zone"}:
            assert f'value="{value}"' in page, name
    assert Preference.objects.count() == 0


def test_mail_cannot_be_turned_on_where_none_is_sent(stage: Stage, anna: Client, settings: Any) -> None:
    settings.EMAIL_URL = ""
    assert "This installation sends no mail." in anna.get(PAGE).content.decode()
    assert anna.post(PAGE, form(stage, email="1")).status_code == 422


def test_mail_needs_an_address(stage: Stage, anna: Client) -> None:
    User.objects.filter(pk=stage.anna.user_id).update(email="")
    page = anna.get(PAGE).content.decode()
    assert "disabled" in page[page.index('name="email"') :].partition(">")[0]
    assert anna.post(PAGE, form(stage, email="1")).status_code == 422


def test_an_address_becomes_mine_when_i_open_the_link_that_was_sent_to_it(stage: Stage, anna: Client) -> None:
    answer = anna.post("/me/address/", {"address": "new@example.org"}, follow=True)
    assert "A mail is on its way to new@example.org." in answer.content.decode()
    (mail,) = stage.mail.mails
    assert [address.addr_spec for address in mail["To"].addresses] == ["new@example.org"]
    link = re.search(r"https://board\.example\.org(/me/address/\S+)", mail.get_body(("plain",)).get_content())[1]
    assert "new@example.org" in anna.get(link).content.decode()
    stage.anna.user.refresh_from_db()
    assert stage.anna.user.email == "anna@example.org", "a GET decides nothing"
    olga = client_of(stage.olga)
    assert [olga.get(link).status_code, olga.post(link).status_code] == [410, 410]
    assert anna.post(link).status_code == 302
    stage.anna.user.refresh_from_db()
    assert stage.anna.user.email == "new@example.org"


def test_the_link_of_an_address_is_good_for_a_day(stage: Stage, anna: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    anna.post("/me/address/", {"address": "new@example.org"})
    text = stage.mail.mails[0].get_body(("plain",)).get_content()
    link = re.search(r"https://board\.example\.org(/me/address/\S+)", text)[1]
    monkeypatch.setattr(addresses, "GOOD_FOR_S", -1)
    assert anna.post(link).status_code == 410
    stage.anna.user.refresh_from_db()
    assert stage.anna.user.email == "anna@example.org"


@pytest.mark.parametrize(
    "address", ["", "nobody", "a@b", "a@example.org\r\nBcc: b@example.org", "x" * 300 + "@example.org"]
)
def test_what_is_no_address_gets_no_mail(stage: Stage, anna: Client, address: str) -> None:
    page = anna.post("/me/address/", {"address": address}, follow=True).content.decode()
    assert "Write an e-mail address like name@example.org." in page
    assert stage.mail.mails == []


def test_boards_of_other_spaces_are_neither_shown_nor_kept(stage: Stage, anna: Client) -> None:
    other = Board.objects.create(space=cast.make_space("elsewhere"), slug="secret", name="Secret plans")
    assert "Secret plans" not in anna.get(PAGE).content.decode()
    anna.post(PAGE, form(stage, boards=[str(other.pk), "1e9", "-1", "9" * 40]))
    assert list(Preference.objects.get().muted_boards.all()) == [stage.board]


def test_nobody_sees_or_changes_somebody_elses(stage: Stage, anna: Client) -> None:
    anna.post(PAGE, form(stage, webhook="1", webhook_url=stage.hook.url))
    page = client_of(stage.olga).get(PAGE).content.decode()
    assert "whsec_" not in page
    assert stage.hook.url not in page
    assert Client().get(PAGE).status_code == 302


def test_the_test_button_says_what_came_of_it(stage: Stage, anna: Client) -> None:
    anna.post(PAGE, form(stage, webhook="1", webhook_url=stage.hook.url))
    stage.hook.answers = [(404, {})]
    answer = client_of(stage.anna, **{"hx-request": "true"}).post("/me/notifications/test/webhook")
    assert answer.status_code == 502
    assert "answered 404" in json.loads(answer.headers["HX-Trigger"])["toast"]["text"]
    Preference.objects.update(tested_at=None)
    stage.hook.answers = [(200, {})]
    answer = anna.post("/me/notifications/test/webhook", follow=True)
    assert "A test is on its way." in answer.content.decode()
    assert anna.post("/me/notifications/test/webhook", follow=True).content.decode().count("Wait ten seconds") == 1
    assert anna.post("/me/notifications/test/pigeon").status_code == 404
    assert anna.get("/me/notifications/test/webhook").status_code == 405


def test_operators_see_in_the_admin_who_was_told_and_no_address(stage: Stage, anna: Client) -> None:
    anna.post(PAGE, form(stage, webhook="1", webhook_url=stage.hook.url))
    stage.collect()
    stage.ask("Which name stays?")
    stage.told()
    User.objects.filter(pk=stage.olga.user_id).update(is_staff=True)
    olga = client_of(stage.olga)
    rows = olga.get(reverse("admin:boards_delivery_changelist")).content.decode()
    assert "Which name stays?" in rows
    assert "Sent" in rows
    told = Preference.objects.get(member=stage.anna)
    page = olga.get(reverse("admin:boards_preference_change", args=[told.pk])).content.decode()
    for secret in (told.webhook_secret, told.webhook_url):
        assert secret not in page
    stranger = cast.make_member(cast.make_space("elsewhere"), "stig", "operator")
    User.objects.filter(pk=stranger.user_id).update(is_staff=True)
    assert "Which name" not in client_of(stranger).get(reverse("admin:boards_delivery_changelist")).content.decode()


class TestNews:
    @pytest.fixture(autouse=True)
    def told_in_the_browser(self, stage: Stage) -> None:
        stage.tell(email=False, browser=True)

    def news(self, client: Client, since: str = "") -> dict[str, Any]:
        answer = client.get("/me/news/", {"since": since} if since else {})
        assert answer.status_code == 200
        assert "no-store" in answer.headers["Cache-Control"]
        return answer.json()

    def test_a_new_row_is_news_once_it_is_there(self, stage: Stage, anna: Client) -> None:
        first = self.news(anna)
        assert first["rows"] == []
        hold = stage.ask("Which name stays?")
        (row,) = self.news(anna, first["at"])["rows"]
        assert row["title"] == "Which name stays?"
        assert row["href"] == f"/holds/{hold.pk}/"
        assert row["key"].startswith(f"hold:{hold.pk}:")
        assert "Desk" in row["body"]

    def test_what_is_answered_is_news_no_more(self, stage: Stage, anna: Client) -> None:
        at = self.news(anna)["at"]
        people.answer_hold(stage.chain, stage.ask().pk, choice="a")
        assert self.news(anna, at)["rows"] == []

    def test_who_asks_for_the_first_time_is_told_nothing_older_than_the_turning_on(
        self, stage: Stage, anna: Client
    ) -> None:
        stage.tell(email=False)
        stage.ask("Old")
        stage.tell(email=False, browser=True)
        stage.ask("New")
        assert [row["title"] for row in self.news(anna)["rows"]] == ["New"]

    def test_in_quiet_hours_there_is_none_and_the_time_stands_still(self, stage: Stage, anna: Client) -> None:
        at = self.news(anna)["at"]
        stage.ask()
        Preference.objects.update(quiet_from=time(0), quiet_to=time(23, 59, 59, 999_999))
        quiet = self.news(anna, at)
        assert (quiet["quiet"], quiet["rows"], quiet["at"]) == (True, [], at)
        Preference.objects.update(quiet_from=None, quiet_to=None)
        assert len(self.news(anna, at)["rows"]) == 1

    def test_a_week_is_as_far_back_as_it_looks(self, stage: Stage, anna: Client) -> None:
        stage.ask()
        Preference.objects.update(browser_since=timezone.now() - timedelta(days=30))
        assert len(self.news(anna, "2001-01-01T00:00:00+00:00")["rows"]) == 1

    @pytest.mark.parametrize(
        "since", ["yesterday", "2026-11-30", "2026-11-30T12:00:00", "2026-13-40T99:00:00Z", "x" * 9_000]
    )
    def test_a_time_that_is_none_counts_as_the_first(self, stage: Stage, anna: Client, since: str) -> None:
        stage.ask()
        assert len(self.news(anna, since)["rows"]) == 1

    def test_hostile_titles_are_one_line_of_words(self, stage: Stage, anna: Client) -> None:
        stage.ask("<img src=x>\n\x1b[31mred\u202e")
        assert self.news(anna)["rows"][0]["title"] == "<img src=x> red"

    def test_pages_know_what_to_tell_without_another_query(self, stage: Stage, anna: Client) -> None:
        page = anna.get(PAGE).content.decode()
        assert 'data-told="browser"' in page
        assert "js/told.js" in page
        olgas = client_of(stage.olga).get(PAGE).content.decode()
        assert "data-told=" not in olgas
        assert "js/told.js" not in olgas

    def test_a_stranger_hears_nothing(self) -> None:
        assert Client().get("/me/news/").status_code == 302

"""What a flow tells a person goes out as a question does: by mail, webhook and browser, each telling once."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from boards import flows, people, sweeping, telling
from boards.models import Debt, Delivery, FlowRun, Member, Preference
from boards.queries.needs_you import waiting
from boards.queries.waiting_row import GROUPS
from tests import cast
from tests.telling.conftest import Stage
from tests.telling.test_killed import killed, sweep_until_sent
from tests.telling.test_mail import parts

STEPS = """
key: ship
name: Ship
steps:
  - {key: tell, name: Tell, kind: notify, to: "%s", prompt: "{{ input.text }}"}
  - {key: go, name: Go, kind: agent, assignee: writer, prompt: Go.}
  - {key: done, name: Done}
inputs:
  properties:
    text: {type: string}
"""
TEXT = "Halyard 2.4 is out.\n\n- two **fixes**\n- <img src=x onerror=alert(1)>"


def start(stage: Stage, to: str = "anna", text: str = TEXT) -> FlowRun:
    flow = flows.validate(textwrap.dedent(STEPS % to))
    made = flows.save_version(cast.chain_of(stage.olga), stage.space, stage.board, flow)
    return flows.start(stage.chain, made, {"text": text})


def test_it_is_mailed_with_its_text_and_a_link_to_the_run(stage: Stage) -> None:
    stage.tell()
    run = start(stage)
    assert stage.told() == 1
    (mail,) = stage.mail.mails
    assert mail["Subject"] == "Told by a flow: Halyard 2.4 is out."
    assert mail["To"] == "Anna <anna@example.org>"
    text, html = parts(mail)
    assert "- two **fixes**\n- <img" in text.replace("\r", "")
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    for part in (text, html):
        assert "Told by Ship" in part
        assert run.name in part
    (sent,) = Delivery.objects.all()
    assert (sent.state, sent.kind, sent.run_id) == ("sent", "told", run.pk)
    link = telling.delivery_of(text.split("/told/")[1].split("/")[0])
    assert link is not None
    assert link.pk == sent.pk


def test_the_link_leads_whoever_was_told_to_the_run(stage: Stage, client: Any) -> None:
    stage.tell()
    run = start(stage)
    stage.told()
    path = "/told/" + parts(stage.mail.mails[0])[0].split("/told/")[1].split("/")[0] + "/"
    client.force_login(stage.olga.user)
    assert client.get(path).status_code == 404
    client.force_login(stage.anna.user)
    answer = client.get(path)
    assert (answer.status_code, str(run.number) in answer["Location"]) == (302, True)


def test_a_webhook_gets_it_without_markup_of_its_own(stage: Stage) -> None:
    stage.tell(email=False, webhook=True, webhook_url=stage.hook.url)
    start(stage, text="Out.\n\n<!channel> [x](https://evil.example)")
    assert stage.told() == 1
    (call,) = stage.hook.posted
    text = json.loads(call.body)["text"]
    assert "|Out.>" in text
    assert "&lt;!channel&gt;" in text
    assert "Told by Ship" in text


def test_an_open_page_shows_it(stage: Stage, client: Any) -> None:
    Preference.objects.create(member=stage.anna, sound=True)
    client.force_login(stage.anna.user)
    at = client.get("/me/news/").json()["at"]
    run = start(stage)
    (row,) = client.get("/me/news/", {"since": at}).json()["rows"]
    assert row["title"] == "Halyard 2.4 is out."
    assert "two" in row["body"]
    assert row["href"].endswith(f"/{run.number}/")


def test_nobody_else_is_told(stage: Stage) -> None:
    stage.tell()
    stage.tell(stage.olga)
    start(stage, "operators")
    assert stage.told() == 1
    assert [mail["To"] for mail in stage.mail.mails] == ["Olga <olga@example.org>"]


def test_a_repeat_of_the_step_is_told_again_and_a_second_reading_is_not(stage: Stage) -> None:
    stage.tell()
    run = start(stage)
    assert [stage.told(), stage.told()] == [1, 0]
    flows.move(stage.chain, run, "tell", cancel_turn=True)
    assert [stage.told(), stage.told()] == [1, 0]
    assert stage.subjects == ["Told by a flow: Halyard 2.4 is out."] * 2


def test_what_was_read_before_it_went_out_is_not_sent(stage: Stage) -> None:
    stage.tell()
    start(stage)
    stage.collect()
    people.mark_seen(stage.chain, waiting(stage.anna).rows[0].key)
    stage.post()
    assert stage.mail.mails == []
    assert stage.states() == ["closed"]


def test_who_unticked_the_kind_is_not_told(stage: Stage) -> None:
    stage.tell(kinds=[group.value for group in GROUPS if group.value != "told"])
    start(stage)
    assert stage.told() == 0
    assert stage.mail.mails == []
    assert [row.group for row in waiting(stage.anna).rows] == ["told"], "the list shows it all the same"


def test_its_page_offers_the_kind(stage: Stage, client: Any) -> None:
    client.force_login(stage.anna.user)
    page = client.get("/me/notifications/").content.decode()
    assert 'name="kinds" value="told" checked' in page
    assert 'name="kinds" value="silent"' not in page


def viewer(stage: Stage) -> Member:
    return cast.make_member(stage.space, "vera", "viewer")


def test_who_may_only_read_is_told_of_it_and_of_no_question(stage: Stage) -> None:
    vera = viewer(stage)
    vera.user.email = "vera@example.org"
    vera.user.save(update_fields=["email"])
    stage.tell(vera)
    start(stage, "vera")
    stage.ask()
    assert stage.told() == 1
    assert stage.subjects == ["Told by a flow: Halyard 2.4 is out."]


@pytest.mark.crash
@pytest.mark.parametrize("point", ["read", "owed", "taken"])
def test_killed_before_the_message_went_out_it_goes_out_once(stage: Stage, point: str) -> None:
    stage.tell()
    start(stage)
    killed(stage, point)
    sweep_until_sent(stage)
    sweeping.sweep_once()
    assert len(stage.mail.mails) == 1
    assert not Debt.objects.filter(kind="deliver").exists()

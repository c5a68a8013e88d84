"""Webhooks: against a real receiver on loopback. Slack's form, signed, never into a private network, waits as asked."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import socket
import threading
from datetime import timedelta
from email.utils import formatdate
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import outbound, telling
from boards.errors import InvalidInput
from boards.models import Debt, Preference
from boards.outbound import BadAddress, NotNow, Refused, checked_url, is_public, post
from boards.queries.needs_you import waiting
from tests.telling.conftest import Stage
from tests.waiting import until


@pytest.fixture
def hooked(stage: Stage) -> Stage:
    """Anna is told by webhook alone."""
    stage.tell(email=False, webhook=True, webhook_url=stage.hook.url)
    return stage


def debt() -> Debt:
    return Debt.objects.get(kind="deliver")


def test_a_question_is_posted_in_slacks_form_and_signed(hooked: Stage) -> None:
    hooked.ask("Which name stays?")
    hooked.told()
    (got,) = hooked.hook.posted
    text = json.loads(got.body)["text"]
    assert text.startswith("<https://board.example.org/told/")
    assert "|Which name stays?>" in text
    key = base64.b64decode(Preference.objects.get().webhook_secret.removeprefix("whsec_"))
    signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{expected}"
    assert got.headers["host"] == f"127.0.0.1:{hooked.hook.port}"
    assert not Debt.objects.filter(kind="deliver").exists()


def test_several_are_one_message_with_a_head(hooked: Stage) -> None:
    for number in range(25):
        hooked.ask(f"Question {number}")
    hooked.told()
    (got,) = hooked.hook.posted
    text = json.loads(got.body)["text"]
    assert text.startswith("*25 things wait on you · Halyard*")
    assert text.count("/told/") == 20
    assert "and 5 more" in text


def test_hostile_text_is_words_there_too(hooked: Stage) -> None:
    hooked.ask("<!channel> @here <https://evil.example|click> & \x1b[31m`x`\nnext line")
    hooked.told()
    text = json.loads(hooked.hook.posted[0].body)["text"]
    assert "<!channel>" not in text
    assert "<https://evil" not in text
    assert "@here" not in text
    assert "\x1b" not in text
    assert "&lt;!channel&gt;" in text
    assert text.count("<") == 1, "our own link alone"


class TestAnswers:
    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413])
    def test_a_refusal_is_not_tried_again_and_is_listed(self, hooked: Stage, status: int) -> None:
        hooked.hook.answers = [(status, {})]
        hooked.ask("Lost")
        hooked.told()
        assert (debt().state, debt().tries) == ("undeliverable", 1)
        hooked.post()
        assert len(hooked.hook.posted) == 1
        why = next(row.why for row in waiting(hooked.olga).rows if row.debt_id)
        assert f"Webhook to Anna: The webhook at 127.0.0.1 answered {status}." in why
        assert "/hook" not in why, "an address may be a secret"

    @pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
    def test_what_may_pass_is_tried_again(self, hooked: Stage, status: int) -> None:
        hooked.hook.answers = [(status, {}), (200, {})]
        hooked.ask()
        hooked.told()
        assert (debt().state, debt().tries) == ("owed", 1)
        hooked.post()
        assert len(hooked.hook.posted) == 2
        assert hooked.hook.posted[0].headers["webhook-id"] == hooked.hook.posted[1].headers["webhook-id"]
        assert hooked.states("webhook") == ["sent"]

    @pytest.mark.parametrize("status", [429, 503])
    def test_it_waits_as_long_as_it_is_asked_to(self, hooked: Stage, status: int) -> None:
        hooked.hook.answers = [(status, {"Retry-After": "1800"})]
        hooked.ask()
        hooked.told()
        waits = Debt.objects.filter(due_at__gt=Now() + timedelta(minutes=29), due_at__lt=Now() + timedelta(minutes=31))
        assert waits.exists()

    def test_a_moment_is_understood_as_well_and_nonsense_is_not_waited_for(self, hooked: Stage) -> None:
        hooked.hook.answers = [(503, {"Retry-After": formatdate(usegmt=True)}), (503, {"Retry-After": "soon"})]
        hooked.ask()
        hooked.told()
        hooked.post()
        assert debt().tries == 2
        assert Debt.objects.filter(due_at__lt=Now() + timedelta(seconds=10)).exists()

    @pytest.mark.parametrize("asked", ["999999999", "9" * 400])
    def test_a_wait_has_an_end(self, hooked: Stage, asked: str) -> None:
        hooked.hook.answers = [(503, {"Retry-After": asked})]
        hooked.ask()
        hooked.told()
        assert Debt.objects.filter(due_at__lt=Now() + timedelta(hours=7), state="owed").exists()

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_a_redirect_is_not_followed(self, hooked: Stage, status: int) -> None:
        hooked.hook.answers = [(status, {"Location": hooked.hook.url + "/elsewhere"})]
        hooked.ask()
        hooked.told()
        assert [got.path for got in hooked.hook.posted] == ["/hook"]
        assert debt().state == "undeliverable"
        assert "Redirects are not followed" in debt().last_error

    def test_a_receiver_that_is_away_is_tried_again(self, hooked: Stage) -> None:
        hooked.hook.close()
        hooked.ask()
        hooked.told()
        assert (debt().state, debt().tries) == ("owed", 1)

    def test_one_that_drips_is_cut_at_the_deadline(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(outbound, "DEADLINE_S", 0.5)
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            settings.WEBHOOK_ALLOW_HOSTS = [f"127.0.0.1:{port}"]
            stop = threading.Event()

            def drip() -> None:
                line, _ = server.accept()
                with line:
                    while not stop.wait(0.05):
                        try:
                            line.sendall(b"H")
                        except OSError:
                            return

            thread = threading.Thread(target=drip, daemon=True)
            thread.start()
            with pytest.raises(NotNow):
                post(f"http://127.0.0.1:{port}/", b"{}", {})
            stop.set()
            until(lambda: not thread.is_alive())


PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("224.0.0.1", "255.255.255.255", "192.0.2.1", "240.0.0.1"),
    *("::1", "::", "fe80::1", "fc00::1", "fd12::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "ff02::1"),
    *("64:ff9b::7f00:1", "2002:7f00:1::", "2002:a00:1::", "2001:0:0:0:0:0:80ff:fffe"),
]


class TestWhereNothingIsSentTo:
    @pytest.mark.parametrize("address", PRIVATE)
    def test_private_addresses_in_all_their_forms(self, address: str) -> None:
        assert not is_public(ipaddress.ip_address(address))
        named = f"[{address}]" if ":" in address else address
        with pytest.raises(BadAddress, match="private network"):
            checked_url(f"https://{named}/hook")

    @pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
    def test_addresses_of_the_open_internet(self, address: str) -> None:
        assert is_public(ipaddress.ip_address(address))

    @pytest.mark.parametrize(
        "url",
        [
            "http://hooks.example.org/x",
            "ftp://hooks.example.org/x",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://",
            "https://name:secret@hooks.example.org/",
            "https://hooks.example.org/ x",
            "https://hooks.example.org/\r\nHost: evil",
            "https://[::1",
            "https://hooks.example.org:99999/",
            "//hooks.example.org/x",
            "https://höoks.example.org/",
            "",
            "https://hooks.example.org/" + "x" * 1000,
        ],
    )
    def test_what_is_no_address_to_post_to(self, url: str) -> None:
        with pytest.raises(BadAddress):
            checked_url(url)

    @pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "localhost", "017700000001"])
    def test_other_ways_to_write_loopback_are_found_when_they_are_looked_up(self, host: str, hook: Any) -> None:
        with pytest.raises((Refused, NotNow)):
            post(f"https://{host}:{hook.port}/hook", b"{}", {})
        assert hook.posted == []

    def test_a_name_that_stands_for_a_private_address_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answers = [("8.8.8.8", 443), ("10.0.0.7", 443)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *words, **more: [(2, 1, 6, "", place) for place in answers])
        monkeypatch.setattr(socket, "create_connection", lambda *words: pytest.fail("connected"))
        with pytest.raises(Refused, match=r"10\.0\.0\.7, which lies in a private network"):
            post("https://hooks.example.org/x", b"{}", {})

    def test_the_connection_goes_to_the_address_that_was_checked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A name that answers differently the second time (DNS rebinding) is looked up once only."""
        asked: list[str] = []
        went: list[Any] = []

        def look_up(host: str, *words: Any, **more: Any) -> Any:
            asked.append(host)
            return [(2, 1, 6, "", ("8.8.8.8" if len(asked) == 1 else "127.0.0.1", 443))]

        def connect(place: Any, timeout: float) -> Any:
            went.append(place)
            raise ConnectionRefusedError("nobody there")

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        monkeypatch.setattr(socket, "create_connection", connect)
        with pytest.raises(NotNow):
            post("https://hooks.example.org/x", b"{}", {})
        assert asked == ["hooks.example.org"]
        assert went == [("8.8.8.8", 443)]

    def test_an_allowed_host_is_allowed_on_its_port_alone(self, settings: Any) -> None:
        settings.WEBHOOK_ALLOW_HOSTS = ["chat.internal:8080"]
        assert checked_url("http://chat.internal:8080/x").port == 8080
        with pytest.raises(BadAddress):
            checked_url("http://chat.internal:8081/x")

    def test_a_setting_that_was_taken_back_holds_for_what_is_owed(self, hooked: Stage, settings: Any) -> None:
        hooked.ask()
        hooked.collect()
        settings.WEBHOOK_ALLOW_HOSTS = []
        hooked.post()
        assert hooked.hook.posted == []
        assert debt().state == "undeliverable"

    def test_it_is_refused_when_it_is_saved(self, stage: Stage) -> None:
        with pytest.raises(InvalidInput, match="private network") as refused:
            stage.tell(webhook=True, webhook_url="https://169.254.169.254/latest/")
        assert refused.value.facts["field"] == "webhook_url"
        assert Preference.objects.count() == 0


def test_a_certificate_that_does_not_fit_is_not_accepted(hook: Any, settings: Any) -> None:
    settings.WEBHOOK_ALLOW_HOSTS = [f"127.0.0.1:{hook.port}"]
    with pytest.raises(NotNow):
        post(f"https://127.0.0.1:{hook.port}/hook", b"{}", {})
    assert hook.posted == []


def test_the_test_button_sends_one(hooked: Stage) -> None:
    telling.send_test(hooked.anna, "webhook")
    assert "This is a test" in json.loads(hooked.hook.posted[0].body)["text"]

"""What `up` decides before it starts anything: who is shown a sign-in link, and what its children are told."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from django.conf import LazySettings
from django.core.management.base import CommandError
from rich.console import Console

from boards.console import Prefixed
from boards.management.commands import up
from boards.models import Member, Role
from tests.cast import make_member, make_space
from tests.commands.running import ROOT


@pytest.fixture
def site(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[up.Site]:
    monkeypatch.delenv("INSECURE_HTTP", raising=False)
    made = up.Site("127.0.0.1", 0)
    yield made
    made.socket.close()


@pytest.mark.parametrize(
    ("asked", "terminal", "loopback", "shown"),
    [
        (False, True, True, True),
        (False, False, True, False),
        (False, True, False, False),
        (False, False, False, False),
        (True, False, True, True),
        (True, True, False, True),
        (True, False, False, True),
    ],
)
def test_a_link_goes_to_a_terminal_on_loopback_or_where_it_was_asked_for(
    asked: bool, terminal: bool, loopback: bool, shown: bool
) -> None:
    assert up.prints_link(asked=asked, terminal=terminal, loopback=loopback) is shown


def test_port_0_is_a_free_port_that_is_known_at_once(site: up.Site) -> None:
    assert site.port > 0
    assert site.url == f"http://127.0.0.1:{site.port}"


def test_a_taken_port_is_refused_in_words(site: up.Site) -> None:
    with pytest.raises(CommandError, match="--port 0"):
        up.Site("127.0.0.1", site.port)


def test_an_unknown_host_is_refused_in_words() -> None:
    with pytest.raises(CommandError, match=r"no-such-host\.invalid is no address"):
        up.Site("no-such-host.invalid", 0)


def test_a_slow_start_is_waited_for_and_one_without_end_is_said(site: up.Site, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(up, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(up, "_answers", lambda site: False)
    monkeypatch.setattr(up, "_database_trouble", lambda: "")
    watch = up.Watch(site, lambda: None)
    now = 150.0
    assert watch.tend() == ""
    now = 200.0
    assert watch.tend() == "The pages are not served after 180 s; the lines of web above say why."


def test_plain_http_is_for_loopback_only(site: up.Site) -> None:
    assert site.environment()["INSECURE_HTTP"] == "1"
    every = up.Site("0.0.0.0", 0)
    every.socket.close()
    assert "INSECURE_HTTP" not in every.environment()
    assert not every.is_loopback


def test_children_are_told_hosts_address_and_folder(site: up.Site, settings: LazySettings) -> None:
    told = site.environment()
    assert "127.0.0.1" in told["ALLOWED_HOSTS"].split(",")
    assert told["SITE_URL"] == site.url
    assert told["DATA_DIR"] == str(settings.DATA_DIR)
    assert told.get("DEBUG") in {None, "", "0", "no"}


def test_another_address_answers_to_the_machines_name(settings: LazySettings) -> None:
    every = up.Site("0.0.0.0", 0)
    every.socket.close()
    assert socket.gethostname() in every.environment()["ALLOWED_HOSTS"].split(",")


def test_site_url_names_the_address_behind_a_proxy(settings: LazySettings, site: up.Site) -> None:
    settings.SITE_URL = "https://board.example.org/"
    assert site.url == "https://board.example.org"


class TestAnnouncement:
    @pytest.fixture
    def operator(self, db: None) -> Member:
        return make_member(make_space(), "olga", Role.OPERATOR)

    def said(self, site: up.Site, shows_link: bool) -> str:
        out = io.StringIO()
        up.announce(Console(file=out, width=40), site, shows_link)
        return out.getvalue()

    @pytest.fixture(autouse=True)
    def folder(self, settings: LazySettings, tmp_path: object) -> None:
        settings.DATA_DIR = tmp_path

    def test_address_and_link_stand_on_lines_of_their_own(self, operator: Member, site: up.Site) -> None:
        operator.user.set_unusable_password()
        operator.user.save()
        said = self.said(site, shows_link=True)
        assert f"\nOrchestra is at {site.url}/\n" in said
        assert f"{site.url}/sign-in/" in said

    def test_without_a_link_it_says_how_to_get_one(self, operator: Member, site: up.Site) -> None:
        operator.user.set_unusable_password()
        operator.user.save()
        said = self.said(site, shows_link=False)
        assert "/sign-in/" not in said
        assert "uv run manage.py signin" in said

    def test_who_has_a_password_uses_it(self, operator: Member, site: up.Site) -> None:
        operator.user.set_password("a long enough one")
        operator.user.save()
        assert "with your user name and password" in self.said(site, shows_link=True)


def test_output_that_nobody_reads_any_more_ends_nothing() -> None:
    code = (
        "import sys; from boards.console import Prefixed, Screen; say = Prefixed(Screen(), ['web'])\n"
        "for _ in range(200): say('web', 'x' * 1000)\n"
        "sys.stderr.write('went on')"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True, cwd=ROOT)
    child.stdout.close()
    assert child.stderr.read() == "went on"
    assert child.wait() == 0


def test_a_line_cannot_repaint_the_terminal_or_speak_for_another_child() -> None:
    out = io.StringIO()
    say = Prefixed(Console(file=out, width=20), ("web", "drain"))
    say("web", "red \x1b[31mtext\x1b[0m \x1b]0;title\x07and\x9b2J a\rb [bold]kept[/bold] " + "long " * 20)
    assert out.getvalue() == "web   │ red text and2J ab [bold]kept[/bold] " + "long " * 20 + "\n"

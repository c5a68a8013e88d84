"""`manage.py signin` and `manage.py doctor`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.test import Client

from boards.models import Debt, Member, Process, Role
from tests.cast import chain_of, filed, make_board, make_member, make_space


@pytest.fixture
def operator(db: None, settings: LazySettings, tmp_path: Path) -> Member:
    settings.DATA_DIR, settings.SITE_URL = tmp_path, ""
    member = make_member(make_space(), "olga", Role.OPERATOR)
    member.user.set_unusable_password()
    member.user.save()
    return member


def said_by(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


class TestSignin:
    def test_the_link_is_for_the_first_operator_at_the_address_that_is_served(
        self, operator: Member, tmp_path: Path
    ) -> None:
        (tmp_path / "address").write_text("http://127.0.0.1:4711\n")
        link = said_by("signin").strip()
        assert link.startswith("http://127.0.0.1:4711/sign-in/")
        page = Client().get(link.removeprefix("http://127.0.0.1:4711"))
        assert "Olga" in page.content.decode()

    def test_site_url_comes_first(self, operator: Member, settings: LazySettings) -> None:
        settings.SITE_URL = "https://board.example.org"
        assert said_by("signin").startswith("https://board.example.org/sign-in/")

    def test_another_member_is_named(self, operator: Member) -> None:
        mia = make_member(operator.space, "mia")
        mia.user.set_unusable_password()
        mia.user.save()
        assert "/sign-in/" in said_by("signin", "--user", "mia")

    def test_who_has_a_password_is_refused(self, operator: Member) -> None:
        operator.user.set_password("a long enough one")
        operator.user.save()
        with pytest.raises(CommandError, match=r"olga has a password.*changepassword olga"):
            said_by("signin")

    def test_an_unknown_name_is_refused_with_those_there_are(self, operator: Member) -> None:
        with pytest.raises(CommandError, match=r"Nobody is called nina\. There is olga\."):
            said_by("signin", "--user", "nina")

    def test_an_account_that_is_switched_off_is_refused(self, operator: Member) -> None:
        operator.user.is_active = False
        operator.user.save()
        with pytest.raises(CommandError, match="switched off"):
            said_by("signin", "--user", "olga")

    def test_without_an_operator_it_says_what_makes_one(self, db: None) -> None:
        with pytest.raises(CommandError, match=r"manage.py up"):
            said_by("signin")


class TestDoctor:
    def test_all_is_well(self, operator: Member, capsys: pytest.CaptureFixture[str]) -> None:
        for kind in Process.Kind:
            Process.objects.create(kind=kind, host="here", pid=1, listening=True)
        said = said_by("doctor")
        assert "ok       database: PostgreSQL" in said
        assert "ok       migrations: All migrations are applied." in said
        assert "ok       sweeper: 1 alive." in said
        assert "ok       drains: 1 alive." in said
        assert "problem" not in said

    def test_what_is_missing_is_named_and_the_exit_code_says_so(self, operator: Member) -> None:
        out = io.StringIO()
        with pytest.raises(SystemExit) as ended:
            call_command("doctor", stdout=out)
        assert ended.value.code == 1
        assert "problem  sweeper: No sweeper has ever run" in out.getvalue()
        assert "problem  drains: No drain is alive" in out.getvalue()
        assert "problem  all of it: Neither runs: manage.py up starts everything" in out.getvalue()

    def test_a_deaf_listener_is_no_problem_but_said(self, operator: Member) -> None:
        for kind in Process.Kind:
            Process.objects.create(kind=kind, host="here", pid=1, listening=kind == Process.Kind.DRAIN)
        assert "ok       listener: 1 process hears no change notices and works by polling." in said_by("doctor")

    def test_a_debt_that_failed_for_good_is_a_problem(self, operator: Member) -> None:
        for kind in Process.Kind:
            Process.objects.create(kind=kind, host="here", pid=1, listening=True)
        task = filed(make_board(operator.space), chain_of(operator))
        Debt.objects.create(kind="cascade", unique_key="k", task=task, state=Debt.State.UNDELIVERABLE)
        out = io.StringIO()
        with pytest.raises(SystemExit):
            call_command("doctor", stdout=out)
        assert "problem  debts: 0 overdue, 1 failed for good: see Debts in the admin." in out.getvalue()

"""Mail: against a real server on loopback. What is over sends none, refusals differ, hostile text stays words."""

from __future__ import annotations

import re
from datetime import time, timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import people, tasks, telling
from boards.debts import paying
from boards.debts.paying import Paid
from boards.models import Debt, Delivery, Hold, Preference, User
from boards.queries.needs_you import waiting
from boards.telling import sending
from tests import cast
from tests.racing import at_once
from tests.telling.conftest import Stage


def parts(mail: EmailMessage) -> tuple[str, str]:
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text is not None
    assert html is not None
    return text.get_content(), html.get_content()


def debt() -> Debt:
    return Debt.objects.get(kind="deliver")


def test_a_question_is_mailed_with_what_happens_if_nobody_answers(stage: Stage) -> None:
    stage.tell(zone="Europe/Copenhagen")
    stage.ask("Which name stays?", title="The name", due_in_ms=3_600_000, default="a")
    assert stage.told() == 1
    (mail,) = stage.mail.mails
    assert mail["Subject"] == "Question: The name"
    assert mail["To"] == "Anna <anna@example.org>"
    assert mail["From"] == "Orchestra <orchestra@board.example.org>"
    assert mail["Auto-Submitted"] == "auto-generated"
    for part in parts(mail):
        assert "The name" in part
        assert "Desk" in part
        assert "(Europe/Copenhagen)" in part
        assert "the answer is “A”, as its author named." in part
        assert re.search(r"https://board\.example\.org/told/[\w.-]+/", part)
    assert not Debt.objects.filter(kind="deliver").exists()
    assert stage.states() == ["sent"]


def test_it_is_due_within_a_few_seconds_and_not_sent_by_whoever_reads_the_log(stage: Stage) -> None:
    stage.tell()
    stage.ask()
    stage.collect()
    assert stage.mail.mails == []
    assert Debt.objects.filter(kind="deliver", due_at__gt=Now(), due_at__lt=Now() + timedelta(seconds=4)).exists()
    assert paying.pay(debt().pk) is Paid.NOT_DUE


def test_a_question_that_is_answered_before_its_mail_goes_out_sends_none(stage: Stage) -> None:
    stage.tell()
    hold = stage.ask()
    stage.collect()
    people.answer_hold(stage.chain, hold.pk, choice="a")
    stage.post()
    assert stage.mail.mails == []
    assert stage.states() == ["closed"]
    assert not Debt.objects.filter(kind="deliver").exists()


def test_what_came_up_while_no_sweeper_ran_is_one_mail(stage: Stage) -> None:
    stage.tell()
    holds = [stage.ask(f"Question {number}") for number in range(30)]
    people.answer_hold(stage.chain, holds[3].pk, choice="a")
    assert stage.told() == 1
    (mail,) = stage.mail.mails
    text, html = parts(mail)
    assert mail["Subject"] == "29 things wait on you · Halyard"
    assert text.count("/told/") == html.count("/told/") == 20
    assert "and 9 more" in text
    assert "Question 3\n" not in text
    assert stage.states().count("sent") == 29


def test_many_questions_in_a_minute_are_few_mails(stage: Stage) -> None:
    stage.tell()
    for number in range(8):
        stage.ask(f"Question {number}")
        stage.collect()
        if Debt.objects.filter(kind="deliver", due_at__lt=Now() + timedelta(seconds=5)).exists():
            stage.post()
    assert len(stage.mail.mails) == 3
    stage.post()
    assert stage.subjects[-1] == "5 things wait on you · Halyard"


def test_what_comes_while_a_message_is_being_sent_follows_in_one_of_its_own(stage: Stage, mail: Any) -> None:
    stage.tell()
    stage.ask("First")
    stage.collect()
    stage.ask("Second")
    real = sending._send

    def slow(taken: Any, letter: Any) -> None:
        assert stage.collect() == 1
        real(taken, letter)

    sending._send = slow
    try:
        assert stage.post() == 1
    finally:
        sending._send = real
    assert stage.subjects == ["Question: First"]
    assert stage.states() == ["sent", "waiting"]
    assert stage.post() == 1
    assert stage.subjects == ["Question: First", "Question: Second"]


def test_two_sweepers_send_once(stage: Stage) -> None:
    stage.tell()
    for number in range(4):
        stage.ask(f"Question {number}")
        stage.collect()
        Debt.objects.filter(kind="deliver").update(due_at=Now() - timedelta(seconds=1))
        at_once(paying.pay_due, paying.pay_due, paying.pay_due)
        Delivery.objects.update(sent_at=Now() - timedelta(hours=1))
    assert stage.subjects == [f"Question: Question {number}" for number in range(4)]


class TestRefusals:
    def test_a_server_that_is_busy_is_tried_again_with_back_off_and_then_takes_one_mail(self, stage: Stage) -> None:
        stage.tell()
        stage.mail.answers["RCPT"] = "451 try later"
        stage.ask("First")
        stage.told()
        assert debt().tries == 1
        assert "The mail server answered 451: try later" in debt().last_error
        assert "E-mail to Anna" in debt().last_error
        assert Debt.objects.filter(due_at__gt=Now(), state="owed").exists()
        stage.ask("Second")
        stage.collect()
        assert Debt.objects.filter(kind="deliver", due_at__gt=Now()).exists(), "the back-off is kept"
        del stage.mail.answers["RCPT"]
        stage.post()
        assert stage.subjects == ["2 things wait on you · Halyard"]

    @pytest.mark.parametrize("command", ["RCPT", "MAIL", "DATA", "END"])
    def test_a_refusal_for_good_is_not_tried_again_and_is_listed(self, stage: Stage, command: str) -> None:
        stage.tell()
        stage.mail.answers[command] = "550 no such mailbox"
        stage.ask("Lost")
        stage.told()
        assert (debt().state, debt().tries) == ("undeliverable", 1)
        row = next(row for row in waiting(stage.olga).rows if row.debt_id)
        assert row.title == "Nobody could be told of “Work for: Lost”"
        assert "E-mail to Anna: The mail server answered 550: no such mailbox" in row.why
        stage.post()
        assert debt().tries == 1
        assert stage.mail.mails == []

    def test_after_a_refusal_the_next_question_is_tried_and_takes_along_what_still_waits(self, stage: Stage) -> None:
        stage.tell()
        stage.mail.answers["RCPT"] = "550 no such mailbox"
        first, _ = stage.ask("First"), stage.ask("Second")
        stage.told()
        people.answer_hold(stage.chain, first.pk, choice="a")
        stage.mail.answers.clear()
        stage.ask("Third")
        stage.told()
        assert not Debt.objects.filter(kind="deliver").exists()
        text, _ = parts(stage.mail.mails[0])
        assert "Question: First" not in text
        assert "Question: Second" in text
        assert "Question: Third" in text

    def test_no_server_at_all_is_tried_again(self, stage: Stage, settings: Any) -> None:
        settings.EMAIL_URL = "smtp://127.0.0.1:1"
        stage.tell()
        stage.ask()
        stage.told()
        assert (debt().state, debt().tries) == ("owed", 1)
        settings.EMAIL_URL = stage.mail.url
        stage.post()
        assert len(stage.mail.mails) == 1

    def test_an_address_that_is_none_is_refused_for_good(self, stage: Stage) -> None:
        stage.tell()
        User.objects.filter(pk=stage.anna.user_id).update(email="no address\r\nBcc: all@example.org")
        stage.ask()
        stage.told()
        assert debt().state == "undeliverable"
        assert "has no e-mail address" in debt().last_error
        assert stage.mail.mails == []

    def test_an_age_counts_from_the_first_try_and_not_from_the_wait_for_a_digest(self, stage: Stage) -> None:
        stage.tell(pace="daily")
        stage.mail.answers["RCPT"] = "451 try later"
        stage.ask()
        stage.collect()
        Debt.objects.update(created_at=Now() - timedelta(hours=25))
        stage.post()
        assert (debt().state, debt().tries) == ("owed", 1)
        Debt.objects.update(created_at=Now() - timedelta(hours=25))
        stage.post()
        assert debt().state == "undeliverable"

    def test_a_line_that_breaks_after_the_text_is_sent_again_under_the_same_id(self, stage: Stage) -> None:
        stage.tell()
        stage.mail.answers["END"] = None
        stage.ask()
        stage.told()
        assert debt().tries == 1
        stage.mail.answers.clear()
        stage.post()
        one, other = stage.mail.mails
        assert one["Message-ID"] == other["Message-ID"]

    def test_what_an_operator_drops_is_not_sent_with_the_next(self, stage: Stage) -> None:
        from boards.debts import operating

        stage.tell()
        stage.mail.answers["RCPT"] = "550 no such mailbox"
        stage.ask("Dropped")
        stage.told()
        operating.drop(cast.chain_of(stage.olga), debt().pk)
        stage.mail.answers.clear()
        stage.ask("Next")
        stage.told()
        assert stage.subjects == ["Question: Next"]


class TestWhen:
    def test_in_quiet_hours_nothing_goes_out_and_then_one_mail_without_what_was_answered(self, stage: Stage) -> None:
        stage.tell()
        Preference.objects.update(quiet_from=time(0), quiet_to=time(23, 59, 59, 999_999))
        first = stage.ask("First")
        stage.ask("Second")
        stage.ask("Third")
        stage.collect()
        assert stage.post() == 0
        assert Debt.objects.filter(kind="deliver", due_at__gt=Now()).exists()
        people.answer_hold(stage.chain, first.pk, choice="a")
        Preference.objects.update(quiet_from=None, quiet_to=None)
        stage.post()
        assert stage.subjects == ["2 things wait on you · Halyard"]

    def test_a_digest_waits_for_its_time(self, stage: Stage) -> None:
        stage.tell(pace="hourly")
        stage.ask("First")
        stage.collect()
        due = debt().due_at
        assert (due.minute, due.second) == (0, 0)
        stage.ask("Second")
        stage.collect()
        assert debt().due_at == due
        stage.post()
        assert stage.subjects == ["2 things wait on you · Halyard"]

    def test_a_channel_that_is_turned_off_sends_nothing_more(self, stage: Stage) -> None:
        stage.tell()
        stage.ask()
        stage.collect()
        stage.tell(email=False)
        stage.post()
        assert stage.mail.mails == []
        assert stage.states() == ["closed"]
        assert not Debt.objects.filter(kind="deliver").exists()

    def test_a_deactivated_member_is_told_nothing(self, stage: Stage) -> None:
        stage.tell()
        stage.ask()
        stage.collect()
        User.objects.filter(pk=stage.anna.user_id).update(is_active=False)
        stage.post()
        assert stage.mail.mails == []

    def test_a_board_that_was_muted_meanwhile_is_left_out(self, stage: Stage) -> None:
        stage.tell()
        stage.ask()
        stage.collect()
        stage.tell(boards=[])
        stage.post()
        assert stage.mail.mails == []


HOSTILE = "<img src=x onerror=alert(1)>\r\nBcc: all@example.org\n[x](javascript:alert(1)) \u202egnp.exe\x1b[31m"


class TestHostileText:
    def test_a_title_of_several_lines_is_one_line_of_the_subject(self, stage: Stage) -> None:
        stage.tell()
        stage.ask("Go on?", title=HOSTILE.replace("\r\n", " ").replace("\n", " ")[:150])
        stage.ask(HOSTILE)
        stage.told()
        (mail,) = stage.mail.mails
        assert mail["Bcc"] is None
        assert [name for name in mail if name.lower() in {"bcc", "cc"}] == []
        text, html = parts(mail)
        for part in (text, html):
            assert "\x1b" not in part
            assert "\u202e" not in part
        assert "\nBcc:" not in text
        assert "<img" not in html
        assert 'href="javascript' not in html
        assert "&lt;img src=x" in html

    def test_alone_it_stands_in_the_subject_as_words(self, stage: Stage) -> None:
        stage.tell()
        stage.ask(HOSTILE)
        stage.told()
        (mail,) = stage.mail.mails
        assert str(mail["Subject"]).startswith("Question: <img src=x onerror=alert(1)> Bcc: all@example.org")
        assert mail["Bcc"] is None

    @pytest.mark.parametrize("name", ['"Anna" <all@example.org>,', "Anna\r\nBcc: x@example.org", "山田 太郎 🙂"])
    def test_the_readers_own_name_adds_no_receiver(self, stage: Stage, name: str) -> None:
        stage.tell()
        User.objects.filter(pk=stage.anna.user_id).update(first_name=name)
        stage.ask()
        stage.told()
        (mail,) = stage.mail.mails
        assert [address.addr_spec for address in mail["To"].addresses] == ["anna@example.org"]
        assert mail["Bcc"] is None

    @pytest.mark.parametrize("title", ["🙂🙂", "日本語の題名", "عنوان", "é" * 10, "x" * 200])
    def test_any_script_arrives(self, stage: Stage, title: str) -> None:
        stage.tell()
        stage.ask("Go on?", title=title)
        stage.told()
        assert title[:100] in str(stage.mail.mails[0]["Subject"])


def test_other_rows_than_questions_are_mailed_too(stage: Stage) -> None:
    stage.tell()
    cast.filed(stage.board, stage.chain, "Write it", checker="person")
    got = cast.claimed(stage.board)
    tasks.complete(cast.agent_chain(stage.board), got.task, "Words", claim=got.ticket)
    stage.told()
    assert stage.subjects == ["Check: Write it"]


def test_a_test_message_says_what_it_is_and_comes_once_in_ten_seconds(stage: Stage) -> None:
    from boards.telling.preferences import TestTooSoon

    telling.send_test(stage.anna, "email")
    assert stage.subjects == ["A test from Orchestra"]
    with pytest.raises(TestTooSoon):
        telling.send_test(stage.anna, "email")
    assert Hold.objects.count() == 0

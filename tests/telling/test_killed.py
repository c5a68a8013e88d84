"""A process that is killed while it tells loses nothing; only where nobody can know is a message sent twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import sweeping
from boards.models import Debt, Delivery, Hold, Process
from boards.telling import sending
from tests.crash.processes import ROOT, Started, database_url, several
from tests.telling.conftest import Stage
from tests.waiting import until

pytestmark = pytest.mark.crash


def environment(stage: Stage) -> dict[str, str]:
    hosts = f"127.0.0.1:{stage.hook.port}"
    return {"EMAIL_URL": stage.mail.url, "SITE_URL": "https://board.example.org", "WEBHOOK_ALLOW_HOSTS": hosts}


def killed(stage: Stage, point: str) -> None:
    words = {"DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "orchestra.settings", **environment(stage)}
    call = [sys.executable, "-m", "tests.telling.sender", point]
    done = subprocess.run(call, env=os.environ | words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr


def sweep_until_sent(stage: Stage) -> None:
    sweeping.sweep_once()
    Debt.objects.filter(kind="deliver").update(due_at=Now() - timedelta(seconds=1))
    sweeping.sweep_once()
    assert not Debt.objects.filter(kind="deliver").exists()
    assert stage.states() == ["sent"]


@pytest.mark.parametrize("point", ["read", "owed", "taken"])
def test_before_the_message_went_out_it_goes_out_once(stage: Stage, point: str) -> None:
    stage.tell()
    stage.ask()
    killed(stage, point)
    assert stage.mail.mails == []
    assert Delivery.objects.count() == (0 if point == "read" else 1)
    sweep_until_sent(stage)
    assert len(stage.mail.mails) == 1


def test_after_it_went_out_and_before_that_was_written_it_goes_out_twice_under_one_id(stage: Stage) -> None:
    """Nobody can know whether the receiver had it, and a question that nobody hears of is worse than a copy."""
    stage.tell()
    stage.ask()
    killed(stage, "sent")
    assert len(stage.mail.mails) == 1
    assert stage.states() == ["waiting"]
    sweep_until_sent(stage)
    one, other = stage.mail.mails
    assert one["Message-ID"] == other["Message-ID"]


def test_what_a_dead_process_had_taken_is_left_alone_until_its_time_is_over(stage: Stage) -> None:
    stage.tell()
    stage.ask()
    killed(stage, "taken")
    sweeping.sweep_once()
    assert stage.mail.mails == []
    left = Debt.objects.get(kind="deliver").due_at - Delivery.objects.get().created_at
    assert timedelta(minutes=4) < left <= sending.TAKEN_FOR + timedelta(minutes=1)


def test_real_sweepers_tell_once_and_a_slow_receiver_holds_no_deadline_up(
    stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    logs = tmp_path_factory.mktemp("logs")
    stage.tell()
    stage.mail.gate = threading.Event()
    with several() as made:
        for number in range(2):
            one = Started(logs / f"sweeper{number}", "sweeper", **environment(stage))
            made.append(one)
            one.until_ready()
        stage.ask("Slow")
        stage.mail.arrived(1, 60)  # the server has it and does not answer yet
        due = stage.ask("Due", kind="approval", options=(), due_in_ms=200)
        until(lambda: _is_expired(due.pk), 30, "the deadline is kept while a receiver is waited for")
        stage.mail.gate.set()
        until(lambda: Delivery.objects.filter(title="Slow", state="sent").exists(), 30)
        for one in made:
            one.terminate()
        assert [one.ends() for one in made] == [0, 0]
    assert stage.subjects.count("Question: Slow") == 1
    assert not Process.objects.filter(stopped_at=None).exists()


def _is_expired(pk: int) -> bool:
    return Hold.objects.filter(pk=pk, state="expired").exists()

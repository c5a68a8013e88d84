"""Drains and sweepers in the admin: operators see which live, and when a sweeper's last pass was."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now
from django.urls import reverse

from boards.models import Debt, Process
from tests.admin.conftest import Cast

LIST = reverse("admin:boards_process_changelist")


def test_an_operator_reads_when_the_last_pass_was_and_how_late_it_is(cast: Cast) -> None:
    Process.objects.create(kind="sweeper", host="here", pid=1, swept_at=Now() - timedelta(minutes=3))
    Debt.objects.create(kind="cascade", unique_key="one", due_at=Now() - timedelta(minutes=10))
    page = cast.client(cast.operator).get(LIST).content.decode()
    assert "Sweeper: 1 alive. The last pass ended 3 min ago; what is due has waited up to 10 min." in page
    assert "Swept at" in page


def test_without_one_it_says_what_to_start(cast: Cast) -> None:
    assert "start manage.py sweeper." in cast.client(cast.operator).get(LIST).content.decode()


def test_staff_that_operates_nothing_is_told_nothing_of_them(cast: Cast) -> None:
    Process.objects.create(kind="sweeper", host="here", pid=1)
    cast.member.user.is_staff = True
    cast.member.user.save()
    page = cast.client(cast.member).get(LIST)
    assert page.status_code == 200
    assert "alive" not in page.content.decode()

"""Words about time are by the database's clock: a web process whose own is wrong shows the same."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from boards.models import Task
from boards.queries import clock
from boards.queries.needs_you import waiting
from tests.web.desk import Desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> Desk:
    return Desk()


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("select statement_timestamp()")
        return cursor.fetchone()[0]


@pytest.fixture(params=[-10, 10], ids=["slow", "fast"])
def own_clock_is_off(request, monkeypatch) -> None:
    true_now, off = timezone.now, timedelta(minutes=request.param)
    monkeypatch.setattr(timezone, "now", lambda: true_now() + off)


@pytest.mark.parametrize(("minutes", "words"), [(5, "due "), (-5, "overdue 5 min")])
def test_a_card_says_due_or_overdue_as_the_database_has_it(desk, own_clock_is_off, minutes, words):
    task = desk.filed()
    Task.objects.filter(pk=task.pk).update(due_at=database_now() + timedelta(minutes=minutes))
    page = desk.client().get("/b/desk/").content.decode()
    said = page[page.index('data-t="due"') :]
    assert said[said.index(">") + 1 :].startswith(words)


@pytest.mark.parametrize(("hours", "soon"), [(23.9, 1), (24.1, 0)])
def test_due_soon_is_as_the_database_has_it(desk, own_clock_is_off, hours, soon):
    task = desk.filed(assignee="ben")
    Task.objects.filter(pk=task.pk).update(due_at=database_now() + timedelta(hours=hours))
    desk.client(desk.ben).get("/needs-you/")  # every page hears the time before it says any
    assert waiting(desk.ben).due_soon == soon


def test_between_two_reads_it_counts_on_by_itself(monkeypatch):
    moment = datetime.fromisoformat("2030-01-01T12:00:00+00:00")
    monkeypatch.setattr(clock, "_heard", None)
    monkeypatch.setattr(time, "monotonic", lambda: 1_000.0)
    clock.heard(moment)
    monkeypatch.setattr(time, "monotonic", lambda: 1_090.0)
    assert clock.now() - moment == timedelta(seconds=90)

"""Fixtures for every test. Where the data lie and which database is used: `tests/plugin.py`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from pytest_django import DjangoDbBlocker

from boards.models import Task
from tests import emptying
from tests.plugin import DATABASE


@pytest.fixture(scope="session")
def django_db_createdb(django_db_createdb: bool) -> bool:
    return django_db_createdb or not DATABASE.is_current()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    DATABASE.mark(current=False)
    emptying.quickly()
    if not os.environ.get("DATABASE_URL"):
        with django_db_blocker.unblock():
            _need_not_outlive_a_power_cut()
    yield
    DATABASE.mark(current=True)


def _need_not_outlive_a_power_cut() -> None:
    """The server of the tests alone; processes that are killed lose nothing by it."""
    with connection.cursor() as cursor:
        for setting in ("fsync", "full_page_writes"):
            cursor.execute(f"alter system set {setting} = off")
        cursor.execute("select pg_reload_conf()")


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_found_when_asked_for() -> None:
    """Each test client makes the middleware anew, and most ask for no static file: none is looked for ahead."""
    settings.WHITENOISE_AUTOREFRESH = True


@pytest.fixture
def lapse() -> Callable[[Task], None]:
    """Run a task's lease out, by the database's clock."""

    def run_out(task: Task) -> None:
        Task.objects.filter(pk=task.pk).update(lease_until=Now() - timedelta(milliseconds=1))

    return run_out

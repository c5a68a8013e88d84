"""`/healthz` and `/readyz`."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.db.models.functions import Now
from django.test import Client

from boards.models import Process
from boards.queries import health


@pytest.fixture
def sweeper(db: None) -> Process:
    return Process.objects.create(kind=Process.Kind.SWEEPER, host="here", pid=1)


def test_healthz_asks_nothing_of_the_database(client: Client) -> None:
    answer = client.get("/healthz")  # without the `db` fixture a query would raise
    assert (answer.status_code, answer.content) == (200, b"ok\n")
    assert "no-store" in answer.headers["Cache-Control"]


def test_readyz_is_well_with_a_living_sweeper(client: Client, sweeper: Process) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["ready"] is True
    assert answer.json()["problems"] == []


def test_readyz_says_that_no_sweeper_ever_ran(client: Client, db: None) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["problems"] == ["No sweeper has ever run: start manage.py sweeper."]


@pytest.mark.parametrize("change", [{"beat_at": Now() - timedelta(seconds=61)}, {"stopped_at": Now()}])
def test_a_silent_or_stopped_sweeper_counts_as_none(client: Client, sweeper: Process, change: dict) -> None:
    Process.objects.filter(pk=sweeper.pk).update(**change)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "start manage.py sweeper" in answer.json()["problems"][0]


def test_readyz_says_when_migrations_are_missing(
    client: Client, sweeper: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_migrated", False)
    monkeypatch.setattr(health.MigrationExecutor, "migration_plan", lambda *_: ["one", "two"])
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["problems"] == ["2 migrations are not applied: run manage.py migrate."]


def test_readyz_answers_when_the_database_does_not(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> health.Finding:
        raise DatabaseError('connection to server at "10.0.0.7" failed')

    monkeypatch.setattr(health, "database", gone)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["problems"] == ["The database does not answer."]
    assert "10.0.0.7" not in answer.content.decode()


def test_only_reading_is_allowed(client: Client) -> None:
    assert client.post("/healthz").status_code == 405
    assert client.post("/readyz").status_code == 405

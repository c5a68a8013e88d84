"""`manage.py bench`: each measurement once, at a size that proves nothing but that it works (spec: 10)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from pytest_django import DjangoDbBlocker

from boards.bench import measures, places
from boards.bench.measures import MEASURES

KEYS = {
    "drain": {"tasks_per_s", "raw_per_s", "ratio", "n", "drains"},
    "file": {"tasks_per_s", "raw_per_s", "ratio", "n", "drains", "bulk_per_s"},
    "pickup": {"ms_p50", "ms_p99", "raw_ms_p50", "raw_ms_p99"},
    "history": {"rows", "empty_per_s", "full_per_s", "ratio"},
    "deps": {"chain_per_s", "fan_per_s", "graph_per_s"},
    "sweep": {"per_s", "doubled"},
    "board": {"ms_p50", "ms_p99", "queries", "bytes", "first_byte_ms_p50"},
    "needs-you": {"ms_p50", "ms_p99", "queries", "bytes"},
    "flows": {"ms_per_change", "growth", "first_fifth_ms", "cpu_ms_per_change", "cpu_growth", "start_ms", "runs"},
}


@pytest.fixture(scope="module")
def places_made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[list[str]]:
    """The measurements share two databases here: making one takes longer than all of them at this size."""
    made: list[str] = []
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock():
        with places.own_database() as first, places.own_database(first) as second:
            spare = [first, second]
            made += [first.name, second.name]

            @contextmanager
            def lent(like: places.Place | None = None) -> Iterator[places.Place]:
                place = spare.pop(0)
                with place.used():
                    empty(place)
                yield place
                spare.append(place)

            patch.setattr(measures, "own_database", lent)
            yield made
        assert not left(made)


def empty(place: places.Place) -> None:
    with place.connect() as connection:
        connection.execute("truncate boards_space, boards_user, boards_process cascade")


def left(names: list[str]) -> list[str]:
    """Which of these databases the server still has."""
    with psycopg.connect(places._server()) as connection:
        found = connection.execute("select datname from pg_database where datname = any(%s)", [names])
        return [name for (name,) in found]


def test_the_command_offers_what_is_measured_here() -> None:
    assert set(MEASURES) == set(KEYS)


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("board", 40),
        ("needs-you", 40),
        ("file", 6),
        ("sweep", 6),
        ("drain", 20),
        ("deps", 20),
        ("pickup", 3),
        ("history", 60),
        ("flows", 3),
    ],
)
def test_a_measurement_answers_the_keys_of_the_specification(places_made: list[str], name: str, n: int) -> None:
    drains = 2 if name == "drain" else 1
    numbers = MEASURES[name].run(n, drains).numbers

    of_several = (
        {"times_one"} if drains > 1 else set()
    )  # beyond the specification: its bar for two is a multiple of one
    assert set(numbers) == KEYS[name] | of_several
    assert all(value >= 0 for value in numbers.values())
    assert numbers.get("doubled", 0) == 0
    assert name != "drain" or numbers["drains"] == 2


def fail_in_a_place(made: list[str]) -> None:
    with places.own_database() as place:
        made.append(place.name)
        raise RuntimeError("the measurement failed")


def test_a_database_is_dropped_after_an_error(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(places, "call_command", lambda *args, **options: None)  # no tables are needed
    with django_db_blocker.unblock():
        with pytest.raises(RuntimeError, match="failed"):
            fail_in_a_place(made)
        assert made
        assert not left(made)


def test_the_last_line_is_one_json_object(places_made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    call_command("bench", "file", "--n", "3", "--json")
    *table, last = capsys.readouterr().out.splitlines()
    told: dict[str, Any] = json.loads(last)

    assert set(told) == KEYS["file"] | {"postgres", "host_cores"}
    assert any("Filed one by one" in line for line in table)

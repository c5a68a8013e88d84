"""The one lock order, checked while the code runs, and the helper that repeats a transaction (spec: 02 section 7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import OperationalError, connection, transaction

from boards import locks
from boards.locks import REPEATS, LockOrderError, Rank, engine_transaction, taking
from boards.models import Space

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks.time, "sleep", lambda seconds: None)


def raise_in_database(code: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"do $$ begin raise exception 'on purpose' using errcode = '{code}'; end $$")


def failing(failures: int, code: str) -> tuple[Callable[[], str], list[int]]:
    """Work that writes a row and then fails so many times, and its tries."""
    tries: list[int] = []

    @engine_transaction
    def work() -> str:
        tries.append(len(tries))
        Space.objects.create(slug="written", name="Written")
        if len(tries) <= failures:
            raise_in_database(code)
        return "done"

    return work, tries


def test_nobody_takes_a_lock_to_the_left_of_one_it_holds() -> None:
    @engine_transaction
    def in_order() -> None:
        for rank in Rank:
            taking(rank)
            taking(rank)

    @engine_transaction
    def against_it(held: Rank, wanted: Rank) -> None:
        taking(held)
        inner(wanted)

    @engine_transaction
    def inner(wanted: Rank) -> None:
        taking(wanted)

    in_order()
    for held in Rank:
        for wanted in Rank:
            if wanted < held:
                with pytest.raises(LockOrderError, match=f"{wanted.name} is locked after {held.name}"):
                    against_it(held, wanted)
    taking(Rank.TASK)
    taking(Rank.IDEMPOTENCY)  # outside of an engine transaction nothing is held


@pytest.mark.parametrize("code", ["40P01", "40001"])
def test_a_transaction_is_repeated_and_what_it_wrote_is_written_once(code: str) -> None:
    work, tries = failing(REPEATS, code)
    assert work() == "done"
    assert len(tries) == REPEATS + 1 == 6
    assert Space.objects.count() == 1


def test_after_five_repeats_it_is_raised_and_nothing_is_written() -> None:
    work, tries = failing(REPEATS + 1, "40P01")
    with pytest.raises(OperationalError):
        work()
    assert len(tries) == REPEATS + 1
    assert not Space.objects.exists()


def test_another_failure_is_not_repeated() -> None:
    work, tries = failing(1, "57014")  # cancelled
    with pytest.raises(OperationalError):
        work()
    assert len(tries) == 1


def test_a_callers_own_transaction_is_not_repeated_from_within() -> None:
    work, tries = failing(1, "40P01")
    with pytest.raises(OperationalError), transaction.atomic():
        work()
    assert len(tries) == 1

"""What a board's own code keeps of each ending, what runs have spent, and leases kept by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection
from django.db.models.functions import Now

from boards import actors, people, tasks
from boards.actors import Chain
from boards.debts import operating
from boards.models import Attempt, Board, Debt, Event, Task
from boards.tasks import EndingSeen, Reason, leases, recording
from tests import cast
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def recorders() -> Iterator[None]:
    before = dict(recording.RECORDERS)
    yield
    recording.RECORDERS.clear()
    recording.RECORDERS.update(before)


@pytest.fixture
def seen() -> list[EndingSeen]:
    """What the desk's function saw; it keeps the names on the row."""
    seen: list[EndingSeen] = []

    @tasks.record_ending("desk")
    def keep(row: Task, ending: EndingSeen) -> dict[str, Any]:
        seen.append(ending)
        return {"endings": [*row.metadata.get("endings", []), ending.name]}

    return seen


def agent(board: Board) -> Chain:
    return cast.agent_chain(board)


def test_it_sees_each_ending_and_what_it_answers_is_kept(board: Board, anna: Chain, seen: list[EndingSeen]) -> None:
    task = cast.filed(board, anna, max_attempts=2, checker="person", metadata={"mine": 1})
    ticket = cast.claimed(board).ticket
    people.open_hold(agent(board), claim=ticket, kind="question", prompt="Which?")
    people.suspend(ticket)
    Task.objects.filter(pk=task.pk).update(kept_open_by="", open_holds=0)
    tasks.fail(agent(board), task, "first", claim=ticket)
    tasks.complete(agent(board), task, {"n": 1}, claim=cast.claimed(board).ticket)
    tasks.send_back(anna, task, "again")
    ticket = cast.claimed(board).ticket
    tasks.hand_back(agent(board), task, claim=ticket)
    tasks.complete(agent(board), task, {"n": 2}, claim=cast.claimed(board).ticket)
    tasks.accept(anna, task)
    row = cast.fresh(task)
    names = ["suspended", "failed", "handed_in", "handed_in", "completed"]
    assert row.metadata == {"mine": 1, "endings": names}
    assert [ending.output for ending in seen][2:] == [{"n": 1}, {"n": 2}, {"n": 2}]
    assert seen[1].error == "first"


def test_bad_endings_are_seen_too(board: Board, anna: Chain, seen: list[EndingSeen]) -> None:
    stuck, gone, late, lost = (cast.filed(board, anna, goal) for goal in ("Stuck", "Gone", "Late", "Lost"))
    tasks.fail(agent(board), stuck, "no", claim=cast.claimed(board).ticket)
    tasks.cancel(anna, gone, "Not wanted")
    tasks.withdraw(actors.service("flows", board.space_id), late)
    cast.claimed(board)
    Task.objects.filter(pk=lost.pk).update(abandonments=3, lease_until=Now() - timedelta(seconds=1))
    assert tasks.abandon_spent(limit=5) == 1
    assert [cast.fresh(task).metadata["endings"] for task in (stuck, gone, late, lost)] == [
        ["errored"],
        ["cancelled"],
        ["withdrawn"],
        ["abandoned"],
    ]
    assert [ending.error for ending in seen][:3] == ["no", "Not wanted", "The due time passed."]


def test_other_boards_are_none_of_its_business(board: Board, anna: Chain, seen: list[EndingSeen]) -> None:
    other = cast.make_board(board.space, "other")
    tasks.cancel(anna, cast.filed(other, anna))
    assert seen == []


@pytest.mark.parametrize("how", ["raises", "breaks the transaction", "answers nonsense", "takes a reserved key"])
def test_where_it_fails_the_ending_stands_and_operators_are_told(
    how: str, board: Board, anna: Chain, olga: Chain
) -> None:
    @tasks.record_ending("desk")
    def fails(row: Task, ending: EndingSeen) -> Any:
        if how == "raises":
            raise RuntimeError("no ink")
        if how == "breaks the transaction":
            with connection.cursor() as cursor:
                cursor.execute("select 1 / 0")
        return "nonsense" if how == "answers nonsense" else {"orchestra:mine": 1}

    task = cast.filed(board, anna)
    tasks.complete(agent(board), task, "result", claim=cast.claimed(board).ticket)
    row = cast.fresh(task)
    assert (row.status, row.output, row.metadata) == ("completed", "result", {})
    debt = Debt.objects.get()
    assert (debt.kind, debt.state, debt.data["ending"]) == ("record_ending", "undeliverable", "completed")
    assert debt.last_error
    operating.pay_again(olga, debt.pk)
    assert Debt.objects.get().state == "undeliverable", "nothing can record it any more"
    operating.drop(olga, debt.pk)
    assert not Debt.objects.exists()


def test_an_ending_that_is_declined_records_nothing(board: Board, anna: Chain, seen: list[EndingSeen]) -> None:
    task = cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    tasks.cancel(anna, task)
    assert not tasks.complete(agent(board), task, 1, claim=ticket).landed
    assert cast.fresh(task).metadata == {"endings": ["cancelled"]}


# Spend.


def test_spend_is_added_up_by_request_and_attempt(board: Board, anna: Chain) -> None:
    task = cast.filed(board, anna, max_attempts=2)
    first = cast.claimed(board).ticket
    assert tasks.spend_view(task)["input_tokens"] is None
    assert tasks.spend_of(task) is None
    call = {"input_tokens": 100, "output_tokens": 10, "model": "m-1"}
    tasks.record_spend(anna, task, "r1", "live", call, claim=first)
    assert tasks.spend_view(task)["live"]
    tasks.record_spend(anna, task, "r1", "settled", call, claim=first)
    tasks.record_spend(anna, task, "r1", "settled", {"input_tokens": 1, "cost_usd": 0.5}, claim=first)
    tasks.record_spend(anna, task, "r1", "live", None, claim=first)
    before, events = cast.fresh(task).revision, Event.objects.count()
    tasks.fail(agent(board), task, "no", claim=first)
    late = tasks.record_spend(anna, task, "r1", "settled", {"output_tokens": 5}, claim=first)
    assert late.landed, "a failed attempt's tokens land after the row settled"
    tasks.record_spend(anna, task, "r2", "settled", {"harness": "cli"}, claim=cast.claimed(board).ticket)
    assert tasks.spend_view(task) == {
        "harness": "cli", "model": "", "input_tokens": 101, "output_tokens": 15, "cost_usd": 0.5, "unreported": 1,
        "live": False,
    }  # fmt: skip
    assert [len(attempt.spend) for attempt in Attempt.objects.order_by("number")] == [1, 1]
    assert cast.fresh(task).revision == before + 2, "the failure and the claim only"
    assert Event.objects.count() == events + 2


def test_spend_of_another_row_is_declined(board: Board, anna: Chain) -> None:
    task, other = cast.filed(board, anna), cast.filed(board, anna, "Other")
    ticket = cast.claimed(board).ticket
    assert tasks.record_spend(anna, other, "r1", "settled", {}, claim=ticket).reason is Reason.NOT_MY_TASK
    with pytest.raises(ValueError, match="part"):
        tasks.record_spend(anna, task, "r1", "all", {}, claim=ticket)


# Leases kept by hand.


def test_a_lease_is_kept_for_as_long_as_the_block_lasts(board: Board, anna: Chain) -> None:
    task = cast.filed(board, anna)
    got = cast.claimed(board, lease_ms=1_000)
    first = cast.fresh(task).lease_until
    with tasks.keep_lease(got.ticket) as kept:
        until(lambda: cast.fresh(task).lease_until > first + timedelta(milliseconds=1_500))
        assert not kept.lost.is_set()
        assert tasks.complete(agent(board), task, 1, claim=got.ticket).landed
    assert not kept.lost.is_set()


def test_a_loss_is_told(board: Board, anna: Chain) -> None:
    task, told = cast.filed(board, anna), threading.Event()
    got = cast.claimed(board, lease_ms=1_000)
    with tasks.keep_lease(got.ticket, on_lost=told.set) as kept:
        tasks.cancel(anna, task)
        assert kept.lost.wait(60)
        assert told.is_set()
    with tasks.keep_lease(got.ticket) as late:
        assert late.lost.is_set()


async def test_async_code_keeps_one_too(board: Board, anna: Chain) -> None:
    cast_claimed = sync_to_async(lambda: (cast.filed(board, anna), cast.claimed(board, lease_ms=1_000))[1])
    got = await cast_claimed()
    async with tasks.keep_lease(got.ticket) as kept:
        assert not kept.lost.is_set()
        before = await sync_to_async(lambda: cast.fresh(got.task).lease_until)()
        renewed = sync_to_async(lambda: until(lambda: cast.fresh(got.task).lease_until > before))
        assert await renewed()


def test_a_database_that_is_away_is_no_loss(board: Board, anna: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    task, calls = cast.filed(board, anna), []
    renew = leases.renew_leases

    def away_at_first(tickets: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise OperationalError("the database is away")
        return renew(tickets)

    monkeypatch.setattr(leases, "renew_leases", away_at_first)
    got = cast.claimed(board, lease_ms=3_000)
    with tasks.keep_lease(got.ticket) as kept:
        until(lambda: len(calls) > 1)
        assert not kept.lost.is_set()
    assert cast.fresh(task).status == "in_progress"

"""The recount of counters: a difference is told to operators, once, and never repaired in silence."""

from __future__ import annotations

import logging

import pytest
from django.core.management import call_command
from django.test import Client

from boards import people, sweeping, tasks, upkeep
from boards.actors import Chain
from boards.debts import operating
from boards.models import Board, BoardCounter, Debt, Hold, Member, Process, Role, Task
from boards.queries.needs_you import waiting
from boards.tasks import HoldFiling
from tests import cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga() -> Member:
    return cast.make_member(cast.make_space(), "olga", Role.OPERATOR)


@pytest.fixture
def board(olga: Member) -> Board:
    return cast.make_board(olga.space)


@pytest.fixture
def chain(olga: Member) -> Chain:
    return cast.chain_of(olga)


@pytest.fixture
def pair(board: Board, chain: Chain) -> tuple[Task, Task]:
    """A task with a question, and one that waits for it."""
    first = cast.filed(board, chain, holds=[HoldFiling(kind="question", prompt="Which?")])
    return first, cast.filed(board, chain, goal="After", deps=[first.public_id])


def differences() -> dict[tuple[int, str], tuple[int, int]]:
    return {(d.key, d.counter): (d.stored, d.counted) for d in tasks.recount().differences}


def test_counters_that_are_right_are_passed_over(pair, chain, board):
    assert differences() == {}
    people.answer_hold(chain, Hold.objects.get().pk, text="This")
    tasks.complete(cast.agent_chain(board), pair[0], "Done.", claim=cast.claimed(board).ticket)
    tasks.cancel(chain, pair[1], "Not wanted")
    assert differences() == {}
    assert not Debt.objects.filter(kind="recount").exists()


def test_each_counter_that_differs_is_named_and_stays_as_it_is(pair, caplog):
    first, second = pair
    Task.objects.filter(pk=first.pk).update(open_holds=3)
    Task.objects.filter(pk=second.pk).update(unmet_deps=0)
    BoardCounter.objects.update(filed_total=1)
    with caplog.at_level(logging.ERROR):
        assert differences() == {
            (first.pk, "open_holds"): (3, 1),
            (second.pk, "unmet_deps"): (0, 1),
            (second.pk, "filed_total of the board"): (1, 2),
        }
    assert len(caplog.records) == 3
    assert cast.fresh(first).open_holds == 3
    assert cast.fresh(second).unmet_deps == 0


def test_what_retention_took_is_no_difference(pair):
    BoardCounter.objects.update(filed_total=7)
    assert differences() == {}


def test_operators_see_it_in_their_list_and_mark_it_as_seen(pair, olga, chain):
    Task.objects.filter(pk=pair[0].pk).update(open_holds=2)
    tasks.recount()
    tasks.recount()
    debt = Debt.objects.get(kind="recount")
    row = next(row for row in waiting(olga).rows if row.group == "record")
    assert row.title == "A counter of “Write the notes” differs from a recount"
    assert row.why == "open_holds is 2, and a recount says 1. Nothing was changed."
    assert [act.label for act in row.acts] == ["Mark as seen", "Open"]
    operating.drop(chain, debt.pk)
    assert not Debt.objects.exists()
    tasks.recount()
    assert Debt.objects.filter(kind="recount").exists(), "it is still wrong"


def test_doctor_and_readyz_say_it_and_traffic_goes_on(pair, client: Client, capsys):
    Process.objects.create(kind=Process.Kind.SWEEPER, host="here", pid=1)
    assert client.get("/readyz").json()["checks"]["counters"] == "0 differ from a recount."
    Task.objects.filter(pk=pair[0].pk).update(open_holds=2)
    tasks.recount()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (200, True)
    assert answer.json()["checks"]["counters"].startswith("1 differ from a recount")
    with pytest.raises(SystemExit):
        call_command("doctor")
    said = capsys.readouterr().out
    assert "problem  counters: 1 differ from a recount: see Needs you, or Debts in the admin." in said
    assert "ok       debts: 0 overdue, 0 failed for good." in said


def test_the_sweeper_looks_at_some_in_each_pass_and_goes_on_where_it_was(pair, monkeypatch):
    Task.objects.filter(pk=pair[1].pk).update(unmet_deps=5)
    upkeep.begin_anew()
    assert sweeping.sweep_once().done["counters that differ"] == 1
    assert sweeping.sweep_once().done["counters that differ"] == 0, "it rests after a round"
    one = tasks.recount(limit=1)
    assert (one.differences, one.next_key) == ([], pair[0].pk)
    assert [d.key for d in tasks.recount(after_key=one.next_key, limit=1).differences] == [pair[1].pk]

"""The gate and the adoption of a lapsed lease, on every state that a row can be in (spec: 02, 3.3; 03, 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now

from boards import errors, people, tasks
from boards.actors import Chain
from boards.models import Attempt, Board, Event, Session, Task, TranscriptItem
from boards.tasks import Claimed, Reason, Recorded, Ticket, gate
from boards.tasks.gate import Stale
from tests import cast
from tests.racing import at_once


@pytest.fixture
def got(board: Board, anna: Chain) -> Claimed:
    cast.filed(board, anna, checker="person")
    return cast.claimed(board)


def row_of(got: Claimed) -> Any:
    return Task.objects.annotate(db_now=Now()).get(pk=got.task.pk)


def run_out(task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(lease_until=Now() - timedelta(milliseconds=1))


@dataclass(frozen=True)
class State:
    """`make` brings the claimed row there. What a plain renewal, one that adopts, and the gate then say of it."""

    make: Callable[[Claimed, Board, Chain], object]
    renew: Reason | Recorded
    adopt: Reason | Recorded
    gate: Stale | None


def _nothing(got: Claimed, board: Board, anna: Chain) -> None:
    pass


def _lapsed(got: Claimed, board: Board, anna: Chain) -> None:
    run_out(got.task)


def _started(got: Claimed, board: Board, anna: Chain) -> None:
    gate.start(cast.agent_chain(board), got.ticket, "writer", "Begins.")


def _started_and_lapsed(got: Claimed, board: Board, anna: Chain) -> None:
    _started(got, board, anna)
    run_out(got.task)


def _taken_by_another(got: Claimed, board: Board, anna: Chain) -> None:
    run_out(got.task)
    cast.claimed(board)


def _suspended(got: Claimed, board: Board, anna: Chain) -> None:
    _started(got, board, anna)
    people.open_hold(cast.agent_chain(board), claim=got.ticket, kind="question", prompt="Which?")
    people.suspend(got.ticket)


def _resumed(got: Claimed, board: Board, anna: Chain) -> None:
    _suspended(got, board, anna)
    people.answer_hold(anna, got.task.holds.get().pk, text="That one")
    assert cast.claimed(board).resumed


def _handed_back(got: Claimed, board: Board, anna: Chain) -> None:
    tasks.hand_back(cast.agent_chain(board), got.task, claim=got.ticket)


def _held(got: Claimed, board: Board, anna: Chain) -> None:
    _handed_back(got, board, anna)
    Task.objects.filter(pk=got.task.pk).update(status="held")


def _handed_in(got: Claimed, board: Board, anna: Chain) -> None:
    tasks.complete(cast.agent_chain(board), got.task, 1, claim=got.ticket)


def _completed(got: Claimed, board: Board, anna: Chain) -> None:
    _handed_in(got, board, anna)
    tasks.accept(anna, got.task)


def _errored(got: Claimed, board: Board, anna: Chain) -> None:
    tasks.fail(cast.agent_chain(board), got.task, "No", claim=got.ticket)


def _cancelled(got: Claimed, board: Board, anna: Chain) -> None:
    tasks.cancel(anna, got.task)


def _assigned_elsewhere(got: Claimed, board: Board, anna: Chain) -> None:
    tasks.set_assignee(anna, got.task, cast.READER)


LOST, ENDED = Reason.LOST_CLAIM, Reason.TERMINAL
STATES: dict[str, State] = {
    "claimed": State(_nothing, Recorded.RECORDED, Recorded.RECORDED, None),
    "claimed, its lease run out": State(_lapsed, LOST, Recorded.RECORDED, None),
    "started": State(_started, Recorded.RECORDED, Recorded.RECORDED, Stale.STARTED),
    "started, its lease run out": State(_started_and_lapsed, LOST, Recorded.RECORDED, Stale.STARTED),
    "taken by another": State(_taken_by_another, LOST, LOST, Stale.ATTEMPT),
    "suspended": State(_suspended, Recorded.UNCHANGED, Recorded.UNCHANGED, Stale.STARTED),
    "resumed under a new grant": State(_resumed, LOST, LOST, Stale.GRANT),
    "handed back": State(_handed_back, LOST, LOST, Stale.STATUS),
    "held": State(_held, LOST, LOST, Stale.STATUS),
    "handed in": State(_handed_in, LOST, LOST, Stale.STATUS),
    "completed": State(_completed, ENDED, ENDED, Stale.STATUS),
    "errored": State(_errored, ENDED, ENDED, Stale.STATUS),
    "cancelled": State(_cancelled, ENDED, ENDED, Stale.STATUS),
    "assigned elsewhere": State(_assigned_elsewhere, Recorded.RECORDED, Recorded.RECORDED, Stale.ASSIGNEE),
}


@pytest.mark.parametrize("adopts", [False, True])
@pytest.mark.parametrize("name", STATES)
def test_what_a_renewal_says_of_every_state(got: Claimed, board: Board, anna: Chain, name: str, adopts: bool) -> None:
    state = STATES[name]
    state.make(got, board, anna)
    before = row_of(got)
    deadline = before.db_now + timedelta(minutes=9)
    outcome = tasks.renew_lease(got.task, deadline, claim=got.ticket, adopt_lapsed_lease=adopts)
    wanted = state.adopt if adopts else state.renew
    after = row_of(got)
    if isinstance(wanted, Reason):
        assert (outcome.result, outcome.reason) == (Recorded.DECLINED, wanted)
    else:
        assert outcome.result is wanted
    assert after.lease_until == (deadline if wanted is Recorded.RECORDED else before.lease_until)
    assert (after.attempts, after.abandonments, after.revision) == (
        before.attempts,
        before.abandonments,
        before.revision,
    )


@pytest.mark.parametrize("name", STATES)
def test_what_the_gate_says_of_every_state(got: Claimed, board: Board, anna: Chain, name: str) -> None:
    state = STATES[name]
    state.make(got, board, anna)
    before, events = row_of(got), Event.objects.count()
    if state.gate is None:
        started = gate.start(cast.agent_chain(board), got.ticket, "writer", "Begins.", lease_ms=30_000)
        after = row_of(got)
        assert after.run == {
            "session_id": str(started.session_id),
            "request_id": started.request_id,
            "attempt": 1,
        }
        assert (after.attempts, after.abandonments, after.lease_duration_ms) == (1, 0, 30_000)
        assert timedelta(seconds=25) < after.lease_until - after.db_now <= timedelta(seconds=30)
        return
    with pytest.raises(errors.StaleTaskClaim) as refused:
        gate.start(cast.agent_chain(board), got.ticket, "writer", "Begins.")
    assert refused.value.facts["reason"] == state.gate
    after = row_of(got)
    assert (after.revision, after.run, after.lease_until) == (before.revision, before.run, before.lease_until)
    assert Event.objects.count() == events


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"task_key": 0}, Stale.NO_TASK),
        ({"incarnation_id": uuid4()}, Stale.INCARNATION),
        ({"created_at": None}, Stale.INCARNATION),
        ({"board_id": 0}, Stale.INCARNATION),
        ({"partition": "x"}, Stale.INCARNATION),
        ({"task_id": "x"}, Stale.INCARNATION),
        ({"attempt": 2}, Stale.ATTEMPT),
        ({"grant_no": 2}, Stale.GRANT),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_a_ticket_that_differs_in_one_field_starts_nothing(
    got: Claimed, board: Board, changed: dict[str, Any], reason: Stale
) -> None:
    ticket: Ticket = replace(got.ticket, **changed)
    with pytest.raises(errors.StaleTaskClaim) as refused:
        gate.start(cast.agent_chain(board), ticket, "writer", "Begins.")
    assert refused.value.facts["reason"] == reason
    assert row_of(got).run is None


def test_a_start_leaves_a_session_a_line_and_an_event(got: Claimed, board: Board) -> None:
    started = gate.start(cast.agent_chain(board), got.ticket, "writer", "Begins.")
    session = Session.objects.get(pk=started.session_id)
    assert (session.parent_id, session.kind) == (got.task.filer_id, "task_run")
    assert Attempt.objects.get(task=got.task).session_id == session.pk
    line = TranscriptItem.objects.get(task=got.task)
    assert (line.text, line.who, line.session_id, line.attempt) == ("Begins.", "writer", session.pk, 1)
    assert Event.objects.filter(task=got.task, kind="task.run_linked", attempt=1).count() == 1


def test_a_resume_goes_on_in_the_session_of_its_attempt(got: Claimed, board: Board, anna: Chain) -> None:
    _suspended(got, board, anna)
    first = row_of(got).run
    people.answer_hold(anna, got.task.holds.get().pk, text="That one")
    again = cast.claimed(board)
    started = gate.start(cast.agent_chain(board), again.ticket, "writer", "Goes on.")
    assert str(started.session_id) == first["session_id"]
    assert started.request_id != first["request_id"]


@pytest.mark.parametrize("lease_ms", [0, 999, 6_442_450_942, 1.5, True])
def test_a_span_out_of_range_starts_nothing(got: Claimed, board: Board, lease_ms: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        gate.start(cast.agent_chain(board), got.ticket, "writer", "Begins.", lease_ms=lease_ms)
    assert row_of(got).run is None


@pytest.mark.django_db(transaction=True)
def test_one_hand_over_delivered_many_times_at_once_starts_once(got: Claimed, board: Board) -> None:
    def begin() -> Any:
        return gate.start(cast.agent_chain(board), got.ticket, "writer", "Begins.")

    said = at_once(*[begin] * 8)
    assert sum(isinstance(each, gate.Started) for each in said) == 1
    refusals = [each for each in said if isinstance(each, errors.StaleTaskClaim)]
    assert [each.facts["reason"] for each in refusals] == [Stale.STARTED] * 7
    assert TranscriptItem.objects.filter(task=got.task).count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_adoption_and_a_claim_of_another_at_once_have_one_winner(board: Board, anna: Chain) -> None:
    for n in range(20):
        cast.filed(board, anna, f"Round {n}")
        got = cast.claimed(board)
        run_out(got.task)
        one, other = at_once(
            lambda got=got: gate.start(cast.agent_chain(board), got.ticket, "writer", "Begins."),
            lambda: cast.claim([cast.Wanted(board.pk, {"writer": 1})], limit=1, claimed_by=cast.HERE),
        )
        started = isinstance(one, gate.Started)
        assert started == (other == [])
        assert row_of(got).attempts == (1 if started else 2)
        tasks.cancel(anna, got.task)

"""The sweeper's pass: what is past its time and nobody has seen to; each effect once, whoever comes first."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rich.console import Console

from boards import live_notices, people, sweeping, tasks
from boards.actors import Chain
from boards.debts import owing
from boards.management.commands.sweeper import Sweeper
from boards.models import Attempt, Board, Debt, Hold, IdempotencyKey, Process, Task
from boards.people import decisions
from boards.states import Status
from tests import cast

pytestmark = pytest.mark.django_db

HERE = cast.HERE["drain"]


def lapse(*claimed: Task) -> None:
    Task.objects.filter(pk__in=[task.pk for task in claimed]).update(lease_until=Now() - timedelta(seconds=1))


def test_with_nothing_due_it_does_nothing(board: Board) -> None:
    report = sweeping.sweep_once()
    assert (report.total, report.failed, str(report)) == (0, [], "")


def test_with_nothing_there_it_asks_little(board: Board, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    sweeping.sweep_once()
    with django_assert_max_num_queries(10):
        sweeping.sweep_once(tidies=False)


def test_what_is_kept_for_some_time_is_dropped_where_it_tidies_up(board: Board) -> None:
    for number in range(3):
        IdempotencyKey.objects.create(caller="a", verb="file", key=f"old-{number}", body_hash="")
    IdempotencyKey.objects.update(created_at=Now() - timedelta(days=8))
    assert sweeping.sweep_once(tidies=False).done["idempotency keys dropped"] == 0
    first = sweeping.sweep_once(2)
    assert (first.done["idempotency keys dropped"], first.has_more) == (2, True)
    last = sweeping.sweep_once(2)
    assert (last.done["idempotency keys dropped"], last.has_more) == (1, False)


def test_a_running_sweeper_tidies_up_once_a_minute_unless_there_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    def sweep_once(*, tidies: bool) -> sweeping.SweepReport:
        told.append(tidies)
        return sweeping.SweepReport(has_more=len(told) == 1)

    monkeypatch.setattr(sweeping, "sweep_once", sweep_once)
    sweeper = Sweeper(Console(quiet=True))
    for _ in range(4):
        sweeper._work()
    assert told == [True, True, False, False]


def test_a_running_sweeper_notes_when_its_pass_ended_and_not_when_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeper = Sweeper(Console(quiet=True))
    with monkeypatch.context() as patched:
        patched.setattr(sweeping, "sweep_once", _away)
        patched.setattr("boards.management.commands.sweeper.let_go", lambda: None)  # the test's own connection is well
        sweeper._work()
    assert Process.objects.get().swept_at is None
    sweeper._work()
    noted = Process.objects.annotate(db_now=Now()).get()
    assert noted.swept_at is not None
    assert noted.swept_at <= noted.db_now
    sweeper._work()  # within the same beat
    assert Process.objects.get().swept_at == noted.swept_at


def _away(**_: object) -> sweeping.SweepReport:
    raise OperationalError("The database is away")


def test_a_lapsed_lease_wakes_the_board_and_never_goes_back_to_ready(
    board: Board, anna: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int | None] = []
    cast.filed(board, anna)
    lapse(cast.claimed(board).task)
    monkeypatch.setattr(live_notices, "changed", lambda board_id, **more: told.append(board_id))
    report = sweeping.sweep_once()
    assert report.done["lost workers told"] == 1
    assert told == [board.pk]
    assert Task.objects.get().status == Status.IN_PROGRESS


def test_a_lapsed_lease_is_told_once_and_the_next_one_again(
    board: Board, anna: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int | None] = []
    cast.filed(board, anna)
    task = cast.claimed(board).task
    lapse(task)
    monkeypatch.setattr(live_notices, "changed", lambda board_id, task_key=None, **more: told.append(task_key))
    assert [sweeping.wake_lapsed() for _ in range(3)] == [1, 0, 0]
    assert told == [task.pk]
    cast.claimed(board)
    assert sweeping.wake_lapsed() == 0
    told.clear()
    lapse(task)
    assert [sweeping.wake_lapsed() for _ in range(2)] == [1, 0]
    assert told == [task.pk]


def test_a_row_that_was_lost_too_often_is_settled(board: Board, anna: Chain) -> None:
    task = cast.filed(board, anna)
    cast.claimed(board)
    Task.objects.update(abandonments=3)
    lapse(task)
    assert sweeping.sweep_once().done["abandoned"] == 1
    row = cast.fresh(task)
    assert row.status == Status.ERRORED
    assert task.public_id in row.error
    assert sweeping.sweep_once().total == 0


def test_a_question_past_its_time_is_closed_once(board: Board, anna: Chain) -> None:
    cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    chain = cast.agent_chain(board)
    people.open_hold(chain, claim=ticket, kind="approval", prompt="Publish?", due_in_ms=0)
    assert sweeping.sweep_once().done["questions past their time"] == 1
    assert Hold.objects.get().state == "expired"
    assert sweeping.sweep_once().total == 0


def test_many_questions_past_their_time_end_together_and_one_that_cannot_ends_no_other(
    board: Board, anna: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [tasks.HoldFiling("confirm", "May it start?", due_at=timezone.now() - timedelta(hours=1), default="no")]
    filed = [cast.filed(board, anna, f"part {n}", holds=asked) for n in range(5)]
    twice = cast.filed(board, anna, "twice", holds=[*asked, *asked])
    odd, answer = Hold.objects.get(task=filed[2].pk), decisions.expiry_answer

    def fails(hold: Hold) -> dict[str, Any] | None:
        if hold.pk == odd.pk:
            raise ValueError("nobody knows")
        return answer(hold)

    monkeypatch.setattr(decisions, "expiry_answer", fails)
    report = sweeping.sweep_once()
    assert report.failed == ["questions past their time"]
    assert list(Hold.objects.filter(state="open")) == [odd]
    assert {cast.fresh(task).status for task in filed} == {"held", "pending"}
    assert (cast.fresh(twice).status, cast.fresh(twice).open_holds) == ("held", 0)
    monkeypatch.setattr(decisions, "expiry_answer", answer)
    assert sweeping.sweep_once().done["questions past their time"] == 1
    assert {cast.fresh(task).status for task in filed} == {"held"}
    assert sweeping.sweep_once().total == 0


def a_stop(board: Board, anna: Chain) -> Debt:
    """A task whose worker is still owed its stop."""
    task = cast.filed(board, anna)
    cast.claimed(board)
    tasks.cancel(anna, task.pk, "Not wanted")
    return Debt.objects.get(kind="session_stop", payer=f"drain:{HERE}")


def test_the_stop_of_a_living_drain_is_left_to_it(board: Board, anna: Chain) -> None:
    Process.objects.create(id=HERE, kind="drain", pid=1)
    a_stop(board, anna)
    Debt.objects.update(created_at=Now() - timedelta(hours=1))
    sweeping.sweep_once()
    assert Debt.objects.exists()


@pytest.mark.parametrize("state", ["silent", "ended", "forgotten"])
def test_the_stop_of_a_dead_drain_is_paid_once_its_lease_is_over(state: str, board: Board, anna: Chain) -> None:
    if state != "forgotten":
        long_ago = Now() - timedelta(seconds=31)
        Process.objects.create(
            id=HERE, kind="drain", pid=1, beat_at=long_ago, stopped_at=long_ago if state == "ended" else None
        )
    a_stop(board, anna)
    sweeping.sweep_once()
    assert Debt.objects.exists(), "the lease may still be running"
    Debt.objects.update(created_at=Now() - timedelta(milliseconds=board.lease_ms))
    assert sweeping.sweep_once().done["stops of dead drains paid"] == 1
    assert not Debt.objects.exists()


def test_one_part_that_fails_does_not_stop_the_others(
    board: Board, anna: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(limit: int) -> int:
        raise RuntimeError("broken")

    monkeypatch.setattr(people, "expire_due", broken)
    debt = owing.owe("session_stop", "one", payer="any")
    Debt.objects.filter(pk=debt.pk).update(due_at=Now())
    report = sweeping.sweep_once()
    assert report.failed == ["questions past their time"]
    assert report.done["debts paid"] == 1


def test_old_idempotency_keys_and_dead_processes_are_dropped(board: Board) -> None:
    for age in (timedelta(days=6), timedelta(days=8)):
        key = IdempotencyKey.objects.create(caller="a", verb="file", key=str(age), body_hash="")
        IdempotencyKey.objects.filter(pk=key.pk).update(created_at=Now() - age)
    for age in (timedelta(seconds=5), timedelta(hours=1)):
        Process.objects.create(kind="drain", pid=1, beat_at=Now() - age)
    sweeping.sweep_once()
    assert IdempotencyKey.objects.get().key == str(timedelta(days=6))
    assert Process.objects.count() == 1


def test_it_sleeps_until_the_next_moment_that_is_due(board: Board, anna: Chain) -> None:
    assert sweeping.seconds_to_next(2.0) == 2.0
    cast.filed(board, anna)
    cast.claimed(board, lease_ms=60_000)
    assert 0 < sweeping.seconds_to_next(300.0) <= 60.0


def test_the_command_makes_one_pass(board: Board, anna: Chain, capsys: pytest.CaptureFixture[str]) -> None:
    cast.filed(board, anna)
    lapse(cast.claimed(board).task)
    call_command("sweeper", once=True)
    assert "swept: 1 lost workers told" in capsys.readouterr().out


def test_counters_of_attempts_agree_after_a_sweep(board: Board, anna: Chain) -> None:
    task = cast.filed(board, anna)
    cast.claimed(board)
    Task.objects.update(abandonments=3)
    lapse(task)
    sweeping.sweep_once()
    assert Attempt.objects.get(task=task.pk).ending == Attempt.Ending.ABANDONED
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from boards_event where task_id = %s and kind = 'task.errored'", [task.pk])
        assert cursor.fetchone()[0] == 1
    assert uuid.UUID(HERE)


def test_pages_are_told_once_that_a_drain_fell_silent_and_once_that_it_is_back(
    board: Board, anna: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int | None] = []
    task = cast.filed(board, anna)
    cast.claimed(board)
    Process.objects.create(id=HERE, kind="drain", pid=1)
    monkeypatch.setattr(sweeping, "_told_silent", set())
    monkeypatch.setattr(live_notices, "changed", lambda board_id, task_key=None, **more: told.append(task_key))
    sweeping.tell_silent_drains()
    assert told == []
    for ago in (20, 21, 0, 1):
        Process.objects.update(beat_at=Now() - timedelta(seconds=ago))
        sweeping.tell_silent_drains()
    assert told == [task.pk, None, task.pk, None]

"""How a task ended is told to the session that filed it: once, after its cascade, when the filer's turn is over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from boards import actors, errors, people, tasks
from boards.actors import Chain
from boards.debts import operating, paying
from boards.debts.kinds import Undeliverable
from boards.models import Board, Debt, Process, Session, Task
from boards.tasks import Claimed, Notice, notices
from boards.tasks.current import working_under
from tests import cast
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


class Ear:
    """A registered function: `heard` is what it was told; `answer` decides what it answers, or raises."""

    def __init__(self) -> None:
        self.heard: list[Notice] = []
        self.answer: Callable[[Notice], Any] = lambda notice: None

    def __call__(self, notice: Notice) -> Any:
        answer = self.answer(notice)
        self.heard.append(notice)
        return answer

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(notice.task_id, notice.ending) for notice in self.heard]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = dict(notices.HANDLERS)
    notices.HANDLERS.clear()
    yield
    notices.HANDLERS.clear()
    notices.HANDLERS.update(before)


@pytest.fixture
def ear() -> Ear:
    ear = Ear()
    tasks.on_task_settled()(ear)
    return ear


def complete(board: Board, task: Task, output: Any = None) -> None:
    ticket = cast.claimed(board, task.assignee).ticket
    tasks.complete(cast.agent_chain(board), task, output, claim=ticket)


def fail(board: Board, task: Task, error: str = "no") -> None:
    tasks.fail(cast.agent_chain(board), task, error, claim=cast.claimed(board, task.assignee).ticket)


def sweep() -> None:
    """Everything that is owed is due, and a sweeper comes by."""
    Debt.objects.filter(kind="notice").update(due_at=Now())
    paying.pay_due()


def owed() -> Debt:
    return Debt.objects.get(kind="notice")


def test_each_ending_is_told_once_with_what_it_says(board: Board, anna: Chain, ear: Ear) -> None:
    done, stuck, gone = (cast.filed(board, anna, goal) for goal in ("Done", "Stuck", "Gone"))
    complete(board, done, {"n": 1})
    fail(board, stuck, "The printer is out of paper.")
    ben = cast.chain_of(cast.make_member(board.space, "ben"))
    tasks.cancel(ben, gone, "Not wanted")
    sweep()
    assert [notice.wire() for notice in ear.heard] == [
        {"board": "desk", "task_id": "t1", "attempt": 1, "ending": "completed", "output": {"n": 1}},
        {"board": "desk", "task_id": "t2", "attempt": 1, "ending": "errored", "error": "The printer is out of paper."},
        {"board": "desk", "task_id": "t3", "attempt": 0, "ending": "cancelled", "error": "Not wanted"},
    ]
    assert {notice.session_id for notice in ear.heard} == {str(anna.session_id)}
    assert not Debt.objects.exists()


def test_neither_a_retry_nor_a_failure_with_a_try_left_is_an_ending(board: Board, anna: Chain, ear: Ear) -> None:
    task = cast.filed(board, anna, max_attempts=2)
    fail(board, task)
    assert ear.heard == []
    fail(board, task)
    assert tasks.retry(anna, task).landed
    complete(board, task)
    assert ear.told == [("t1", "errored"), ("t1", "completed")]


def test_a_cancel_that_the_filer_made_itself_is_not_told(board: Board, anna: Chain, ear: Ear) -> None:
    tasks.cancel(anna, cast.filed(board, anna))
    tasks.skip(anna, cast.filed(board, anna), "no need")
    assert ear.heard == []
    assert not Debt.objects.exists()


def test_a_withdraw_is_told_as_cancelled(board: Board, anna: Chain, ear: Ear) -> None:
    tasks.withdraw(actors.service("flows", board.space_id), cast.filed(board, anna))
    assert [(n.ending, n.error) for n in ear.heard] == [("cancelled", "The due time passed.")]


def test_an_ending_with_nobody_to_tell_costs_nothing(board: Board, anna: Chain) -> None:
    cast.filed(board, anna)
    got = cast.claimed(board)
    with CaptureQueriesContext(connection) as without:
        tasks.complete(cast.agent_chain(board), got.task, None, claim=got.ticket)
    tasks.on_task_settled(board="elsewhere")(Ear())
    cast.filed(board, anna)
    got = cast.claimed(board)
    with CaptureQueriesContext(connection) as elsewhere:
        tasks.complete(cast.agent_chain(board), got.task, None, claim=got.ticket)
    assert not any("notice" in query["sql"] for query in without)
    assert len(elsewhere) == len(without) + 1, "the look whether anything waited for the turn's end"
    assert not Debt.objects.exists()


def test_the_most_particular_function_hears_it(board: Board, anna: Chain, ear: Ear) -> None:
    desk, members = Ear(), Ear()
    tasks.on_task_settled(board="desk")(desk)
    tasks.on_task_settled(filer="member")(members)
    complete(board, cast.filed(board, anna))
    other = cast.make_board(board.space, "other")
    complete(other, cast.filed(other, anna))
    complete(other, cast.filed(other, actors.service("demo", board.space_id)))
    assert (len(desk.heard), len(members.heard), len(ear.heard)) == (1, 1, 1)


def test_two_functions_for_one_place_are_a_mistake(ear: Ear) -> None:
    with pytest.raises(AssertionError, match="Two functions"):
        tasks.on_task_settled()(Ear())


def test_it_falls_due_when_the_cascade_is_paid_and_lists_what_that_cancelled(
    board: Board, anna: Chain, ear: Ear, payers: dict[str, Any]
) -> None:
    ben = cast.chain_of(cast.make_member(board.space, "ben"))
    first = cast.filed(board, anna, "First")
    cast.filed(board, ben, "Second", deps=["t1"])
    cast.filed(board, anna, "Third", deps=["t2"])
    cast.filed(board, ben, "Fourth", deps=["t2"])
    pay, payers["cascade"] = payers["cascade"], lambda debt: 1 / 0
    fail(board, first)
    assert owed().after is not None
    sweep()
    assert ear.heard == []
    payers["cascade"] = pay
    Debt.objects.update(due_at=Now())
    paying.pay_due()
    told = {(notice.session_id, notice.task_id): notice.cancelled for notice in ear.heard}
    assert told == {
        (str(anna.session_id), "t1"): ("t3",),
        (str(ben.session_id), "t2"): ("t4",),
    }
    assert not Debt.objects.exists()


def test_a_function_that_raises_is_told_again(board: Board, anna: Chain, ear: Ear) -> None:
    ear.answer = lambda notice: 1 / 0
    complete(board, cast.filed(board, anna))
    assert (owed().tries, owed().last_error) == (1, "ZeroDivisionError: division by zero")
    first = owed().unique_key
    assert tasks.retry(anna, Task.objects.get()).reason == "disallowed"
    ear.answer = lambda notice: None
    sweep()
    assert [notice.key for notice in ear.heard] == [first]
    assert not Debt.objects.exists()


def test_a_stuck_task_settles_until_its_filer_was_told(board: Board, anna: Chain, ear: Ear) -> None:
    ear.answer = lambda notice: 1 / 0
    task = cast.filed(board, anna)
    fail(board, task)
    assert tasks.retry(anna, task).reason == "settling"
    ear.answer = lambda notice: None
    sweep()
    assert tasks.retry(anna, task).landed


def test_being_held_back_is_no_failure_and_starts_its_age_anew(board: Board, anna: Chain, ear: Ear) -> None:
    ear.answer = lambda notice: tasks.defer("busy")
    complete(board, cast.filed(board, anna))
    for _ in range(3):
        Debt.objects.update(created_at=Now() - timedelta(hours=30))
        sweep()
    debt = owed()
    assert (debt.tries, debt.state, debt.last_error, debt.data["deferred"]) == (0, "owed", "Held back: busy", 4)
    assert Debt.objects.filter(created_at__gt=Now() - timedelta(minutes=1), due_at__gt=Now()).exists()
    ear.answer = lambda notice: None
    assert anna.session_id is not None
    assert tasks.resend_now(anna.session_id) == 1
    assert len(ear.heard) == 5
    assert not Debt.objects.exists()


@pytest.mark.parametrize("why", ["too old", "gone"])
def test_an_undeliverable_one_is_noted_on_the_row(why: str, board: Board, anna: Chain, olga: Chain, ear: Ear) -> None:
    def refuse(notice: Notice) -> None:
        raise Undeliverable("The session is gone.") if why == "gone" else RuntimeError("no answer")

    ear.answer = refuse
    complete(board, cast.filed(board, anna))
    if why == "too old":
        assert owed().state == "owed"
        Debt.objects.update(created_at=Now() - timedelta(hours=25))
        sweep()
    assert owed().state == "undeliverable"
    noted = Task.objects.get().metadata["notice_undeliverable:1:completed"]
    assert set(noted) == {"at", "detail"}
    assert noted["detail"].endswith("The session is gone." if why == "gone" else "no answer")
    ear.answer = lambda notice: None
    operating.pay_again(olga, owed().pk)
    assert ear.told == [("t1", "completed")]


def test_notices_of_one_session_come_one_at_a_time(board: Board, anna: Chain, ear: Ear) -> None:
    at_once: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def slowly(notice: Notice) -> None:
        at_once.append(1)
        assert sum(at_once) == 1
        begun.set()
        go_on.wait(60)
        at_once.pop()

    ear.answer = slowly
    first, second = cast.filed(board, anna, "First"), cast.filed(board, anna, "Second")
    thread = threading.Thread(target=ended_elsewhere, args=(board, first))
    thread.start()
    assert begun.wait(60)
    complete(board, second)
    assert Debt.objects.filter(kind="notice").count() == 2
    go_on.set()
    thread.join(60)
    assert ear.told == [("t1", "completed"), ("t2", "completed")], "the second one follows at once"
    assert not Debt.objects.exists()


def ended_elsewhere(board: Board, task: Task) -> None:
    try:
        complete(board, task)
    finally:
        connection.close()


def test_unless_they_may_come_together(board: Board, anna: Chain) -> None:
    both = threading.Barrier(2)
    ear = Ear()
    ear.answer = lambda notice: both.wait(60) and None
    tasks.on_task_settled(concurrency="allow")(ear)
    first, second = cast.filed(board, anna, "First"), cast.filed(board, anna, "Second")
    thread = threading.Thread(target=ended_elsewhere, args=(board, first))
    thread.start()
    until(lambda: cast.fresh(first).is_ended)
    complete(board, second)
    thread.join(60)
    assert len(ear.heard) == 2


def test_what_a_function_files_is_its_own(board: Board, anna: Chain, ear: Ear) -> None:
    def file_more(notice: Notice) -> None:
        assert tasks.current_claim() is None
        for n in range(2):
            tasks.file_task(anna, board, goal=f"Next {n}", allow_same=True)

    task, other = cast.filed(board, anna), cast.filed(board, anna, "Other", assignee="reader")
    ear.answer = file_more
    got = cast.claimed(board, "reader")
    with working_under(got.ticket):
        complete(board, task)
    assert got.task.pk == other.pk
    assert set(Task.objects.filter(goal__startswith="Next").values_list("filed_by_task", flat=True)) == {None}


# A filer that is a turn.


@pytest.fixture
def turn(board: Board, anna: Chain) -> Claimed:
    """A task that the writer works, in a session of its own."""
    cast.filed(board, anna, "Parent")
    got = cast.claimed(board)
    session = Session.objects.create(space=board.space, kind="task_run")
    tasks.link_run(cast.agent_chain(board), got.ticket, session.pk, "request-1")
    return got


def filed_in(turn: Claimed, board: Board, goal: str = "Child", **fields: Any) -> Task:
    session = turn.task.attempt_rows.get().session_id
    with working_under(turn.ticket):
        chain = actors.agent("writer", board.space_id, session)
        return tasks.file_task(chain, board, goal=goal, assignee="reader", **fields)


def test_it_waits_for_the_end_of_the_turn_that_filed(turn: Claimed, board: Board, ear: Ear) -> None:
    child = filed_in(turn, board)
    complete(board, child, "result")
    sweep()
    assert ear.heard == []
    assert Debt.objects.filter(due_at__gt=Now() + timedelta(seconds=20)).count() == 1
    tasks.complete(cast.agent_chain(board), turn.task, None, claim=turn.ticket)
    assert (child.public_id, "completed") in ear.told
    assert not Debt.objects.exists()


@pytest.mark.parametrize("how", ["hand_back", "fail", "suspend"])
def test_any_end_of_the_turn_will_do(how: str, turn: Claimed, board: Board, ear: Ear) -> None:
    complete(board, filed_in(turn, board))
    agent = cast.agent_chain(board)
    if how == "hand_back":
        tasks.hand_back(agent, turn.task, claim=turn.ticket)
    elif how == "fail":
        tasks.fail(agent, turn.task, "no", claim=turn.ticket)
    else:
        people.open_hold(agent, claim=turn.ticket, kind="question", prompt="Which?")
        assert people.suspend(turn.ticket).landed
    assert ("t2", "completed") in ear.told


def test_a_later_attempt_of_the_filer_holds_nothing_back(turn: Claimed, board: Board, ear: Ear) -> None:
    child = filed_in(turn, board)
    tasks.hand_back(cast.agent_chain(board), turn.task, claim=turn.ticket)
    cast.claimed(board)
    complete(board, child)
    assert ear.told == [("t2", "completed")]


def test_a_filer_that_died_holds_it_until_its_heartbeat_is_stale(turn: Claimed, board: Board, ear: Ear) -> None:
    complete(board, filed_in(turn, board))
    beat = timedelta(milliseconds=turn.task.lease_duration_ms or 0)
    Task.objects.filter(pk=turn.task.pk).update(lease_until=Now() + beat - timedelta(seconds=80))
    sweep()
    assert ear.heard == []
    Task.objects.filter(pk=turn.task.pk).update(lease_until=Now() + beat - timedelta(seconds=91))
    process = Process.objects.create(id=cast.HERE["drain"], kind="drain", pid=1)
    sweep()
    assert ear.heard == [], "its drain lives"
    Process.objects.filter(pk=process.pk).update(beat_at=Now() - timedelta(seconds=91))
    sweep()
    assert ear.told == [("t2", "completed")]


def test_a_notice_taken_in_a_turn_is_told_to_nobody_else(turn: Claimed, board: Board, ear: Ear) -> None:
    first = cast.filed(board, cast.chain_of(cast.make_member(board.space, "ben")), "First", assignee="reader")
    ear.answer = lambda notice: tasks.defer()
    complete(board, first, "result")
    ear.answer = lambda notice: None
    ear.heard.clear()
    with working_under(turn.ticket):
        taken = tasks.take_owed_notice(first)
        assert taken is not None
        assert taken.notice.output == "result"
        assert tasks.take_owed_notice(first) is None, "a living turn holds it"
    assert tasks.take_owed_notice(first) is None
    sweep()
    assert ear.heard == []
    assert tasks.clear_notice(taken)
    assert not tasks.clear_notice(taken)
    assert not Debt.objects.exists()


def test_taken_and_not_cleared_it_is_owed_again_when_the_turn_ends(turn: Claimed, board: Board, ear: Ear) -> None:
    child = filed_in(turn, board)
    complete(board, child)
    with working_under(turn.ticket):
        taken = tasks.take_owed_notice(child)
    assert taken is not None
    tasks.complete(cast.agent_chain(board), turn.task, None, claim=turn.ticket)
    assert ("t2", "completed") in ear.told
    assert not tasks.clear_notice(taken)


def test_taking_pays_the_cascade_first(turn: Claimed, board: Board, ear: Ear, payers: dict[str, Any]) -> None:
    child = filed_in(turn, board)
    filed_in(turn, board, "Grand", deps=[child.public_id])
    pay, payers["cascade"] = payers["cascade"], lambda debt: 1 / 0
    fail(board, child)
    payers["cascade"] = pay
    with working_under(turn.ticket):
        taken = tasks.take_owed_notice(child)
    assert taken is not None
    assert taken.notice.cancelled == ("t3",)


# Waiting for a task.


def test_a_wait_hears_the_ending_and_nobody_else_does(turn: Claimed, board: Board, ear: Ear) -> None:
    child = filed_in(turn, board)
    heard: list[Task] = []

    def wait() -> None:
        try:
            with working_under(turn.ticket):
                heard.append(tasks.get_task(cast.agent_chain(board), board, child.public_id, wait=True))
        finally:
            connection.close()

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: (Task.objects.get(pk=turn.task.pk).claimed_by or {}).get("parked"))
    complete(board, child, "result")
    sweep()
    thread.join(60)
    assert heard[0].output == "result"
    assert ear.heard == []
    assert not Debt.objects.exists()
    row = Task.objects.get(pk=turn.task.pk)
    assert ("parked" in (row.claimed_by or {}), row.revision) == (False, turn.task.revision + 1)  # the link's
    tasks.complete(cast.agent_chain(board), turn.task, None, claim=turn.ticket)
    assert ear.told == [("t1", "completed")]


def test_a_parked_turn_holds_back_only_what_it_waits_for(turn: Claimed, board: Board, ear: Ear) -> None:
    awaited, other = filed_in(turn, board, "Awaited"), filed_in(turn, board, "Other")
    parked = {"parked": {"on": awaited.pk, "at": "2020-01-01T00:00:00Z"}}
    Task.objects.filter(pk=turn.task.pk).update(claimed_by=cast.HERE | parked)
    for _ in (awaited, other):
        got = cast.claimed(board, "reader")
        tasks.complete(cast.agent_chain(board), got.task, None, claim=got.ticket)
    sweep()
    assert ear.told == [(other.public_id, "completed")]


def test_what_has_ended_already_is_answered_at_once(board: Board, anna: Chain, ear: Ear) -> None:
    task = cast.filed(board, anna)
    ear.answer = lambda notice: tasks.defer()
    complete(board, task, "result")
    assert tasks.get_task(anna, board, task.public_id, wait=True).output == "result"
    assert not Debt.objects.exists(), "one ending is delivered once"


def test_a_wait_is_over_at_its_deadline_and_cancels_nothing(
    board: Board, anna: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boards.tasks.waiting.SHORTEST_MS", 1)
    task = cast.filed(board, anna)
    with pytest.raises(errors.WaitTimedOut) as refused:
        tasks.get_task(anna, board, task.public_id, wait=True, deadline_ms=50)
    assert refused.value.code == "wait_timed_out"
    assert cast.fresh(task).status == "pending"


@pytest.mark.parametrize("deadline_ms", [29_999, 3_600_001, True, 0])
def test_a_deadline_out_of_range_is_refused(deadline_ms: int, board: Board, anna: Chain) -> None:
    with pytest.raises(errors.WaitDeadlineOutOfRange):
        tasks.get_task(anna, board, cast.filed(board, anna).public_id, wait=True, deadline_ms=deadline_ms)


def test_a_turn_waits_for_what_its_own_session_filed(turn: Claimed, board: Board, anna: Chain) -> None:
    other = cast.filed(board, anna, "Other", assignee="reader")
    with working_under(turn.ticket):
        for task in (other, turn.task):
            with pytest.raises(errors.WaitUnavailable):
                tasks.get_task(anna, board, task.public_id, wait=True)


def test_a_turn_waits_once_at_a_time(turn: Claimed, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    child = filed_in(turn, board)
    monkeypatch.setattr("boards.tasks.waiting._pending", {(turn.ticket.task_key, turn.ticket.grant_no)})
    with working_under(turn.ticket), pytest.raises(errors.WaitAlreadyPending):
        tasks.get_task(cast.agent_chain(board), board, child.public_id, wait=True)


def test_a_parked_turn_gives_its_slot_back(turn: Claimed, board: Board) -> None:
    board.roster.update(max_running=1)
    with working_under(turn.ticket):
        tasks.file_task(actors.agent("writer", board.space_id), board, goal="Child", assignee="writer")
    wanted = [tasks.Wanted(board.pk, {"writer": 1})]
    assert tasks.claim(wanted, limit=1, claimed_by=cast.HERE) == []
    Task.objects.filter(pk=turn.task.pk).update(claimed_by=cast.HERE | {"parked": {"on": 1}})
    assert len(tasks.claim(wanted, limit=1, claimed_by=cast.HERE)) == 1

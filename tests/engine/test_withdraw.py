"""A task whose step's due time passed: ended by the Flows service alone, in one write that nothing reopens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import actors, errors, people, policy, sweeping, tasks
from boards.actors import Chain
from boards.debts import paying
from boards.models import Attempt, Board, Debt, Event, Hold, Task
from boards.tasks import Reason, Recorded
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def flows(board: Board) -> Chain:
    return actors.service("flows", board.space_id)


def checked(board: Board, anna: Chain) -> Task:
    task = cast.filed(board, anna, checker="person")
    tasks.complete(cast.agent_chain(board), task, {"n": 1}, claim=cast.claimed(board).ticket)
    return cast.fresh(task)


def in_status(status: str, board: Board, anna: Chain) -> Task:
    if status == "needs_check":
        return checked(board, anna)
    task = cast.filed(board, anna, held=status == "held")
    if status in {"in_progress", "errored", "completed"}:
        ticket = cast.claimed(board).ticket
        if status == "errored":
            tasks.fail(cast.agent_chain(board), task, "no", claim=ticket)
        if status == "completed":
            tasks.complete(cast.agent_chain(board), task, None, claim=ticket)
    return cast.fresh(task)


@pytest.mark.parametrize("status", ["pending", "held", "in_progress", "needs_check", "errored"])
def test_it_ends_from_every_status_but_the_good_ending(status: str, board: Board, anna: Chain, flows: Chain) -> None:
    task = in_status(status, board, anna)
    due_at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    assert tasks.withdraw(flows, task, due_at=due_at).result is Recorded.RECORDED
    row = cast.fresh(task)
    assert (row.status, row.error, row.cancelled_via) == ("cancelled", "The due time passed.", "flow")
    assert row.withdrawn["reason"] == "timeout"
    assert abs(datetime.fromisoformat(row.withdrawn["at"]) - row.completed_at) < timedelta(seconds=5)
    event = Event.objects.get(task=task, kind="task.withdrawn")
    assert (event.from_status, event.to_status, event.cause) == (status, "cancelled", "withdraw")
    assert event.data["due_at"] == due_at.isoformat()
    if status == "in_progress":
        assert Attempt.objects.get(task=task).ending == "withdrawn"
    assert tasks.withdraw(flows, task).result is Recorded.UNCHANGED
    assert cast.fresh(task).withdrawn == row.withdrawn


def test_a_completed_task_has_won(board: Board, anna: Chain, flows: Chain) -> None:
    task = in_status("completed", board, anna)
    with pytest.raises(errors.IllegalTaskTransition):
        tasks.withdraw(flows, task)
    assert tasks.withdraw(flows, task, if_allowed=True).reason is Reason.TERMINAL
    assert cast.fresh(task).withdrawn is None


@pytest.mark.parametrize("who", ["operator", "member", "agent", "drain", "sweeper", "demo", "flows then agent"])
def test_nobody_else_may(who: str, board: Board, anna: Chain, olga: Chain, flows: Chain) -> None:
    chains = {
        "operator": olga,
        "member": anna,
        "agent": cast.agent_chain(board),
        "flows then agent": flows.then(cast.agent_chain(board).acting),
    }
    chain = chains.get(who) or actors.service(who, board.space_id)  # type: ignore[arg-type]
    task = cast.filed(board, anna)
    with pytest.raises(errors.Forbidden):
        tasks.withdraw(chain, task)
    assert cast.fresh(task).status == "pending"
    assert not policy.allowed(chain, "tasks.withdraw")


def test_the_flows_service_may_for_whoever_started_the_run(board: Board, anna: Chain, flows: Chain) -> None:
    task = cast.filed(board, anna)
    assert tasks.withdraw(anna.then(flows.acting), task).landed


def refusals(board: Board, anna: Chain, task: Task, ticket: Any) -> dict[str, Any]:
    agent = cast.agent_chain(board)
    return {
        "complete": lambda: tasks.complete(agent, task, {"n": 2}, claim=ticket),
        "fail": lambda: tasks.fail(agent, task, "late", claim=ticket),
        "hand_back": lambda: tasks.hand_back(agent, task, claim=ticket),
        "progress": lambda: tasks.report_progress(agent, task, claim=ticket, note="late"),
        "retry": lambda: tasks.retry(anna, task),
        "cancel": lambda: tasks.cancel(anna, task),
        "accept": lambda: tasks.accept(anna, task),
        "send_back": lambda: tasks.send_back(anna, task, "again"),
        "hold": lambda: tasks.hold(anna, task),
        "release": lambda: tasks.release(anna, task),
        "start_anyway": lambda: tasks.start_anyway(anna, task),
        "steer": lambda: tasks.steer(anna, task, "hello"),
        "edit": lambda: tasks.update_task(anna, task, goal="other"),
    }


def refused(act: Any) -> str:
    """The code of the refusal, or the reason of the decline; "" where it landed."""
    try:
        outcome = act()
    except errors.Refusal as refusal:
        return refusal.code
    return "" if outcome.landed else str(outcome.reason)


def test_from_then_on_everything_is_refused(board: Board, anna: Chain, flows: Chain) -> None:
    task = cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    tasks.withdraw(flows, task)
    before = cast.fresh(task)
    for name, act in refusals(board, anna, task, ticket).items():
        assert refused(act) in {"bad_state", "terminal", "disallowed", "task_finished"}, name
    assert cast.fresh(task).revision == before.revision
    assert tasks.claim([tasks.Wanted(board.pk, {"writer": 5})], limit=5, claimed_by=cast.HERE) == []
    assert tasks.retry(anna, task).reason is Reason.DISALLOWED
    with pytest.raises(errors.IllegalTaskTransition, match="The due time passed"):
        tasks.accept(anna, task)


def test_a_person_starts_it_no_more(board: Board, anna: Chain, flows: Chain, space: Any) -> None:
    ben = cast.make_member(space, "ben")
    cast.put_on_roster(board, ben)
    task = cast.filed(board, anna, assignee="ben")
    tasks.withdraw(flows, task)
    with pytest.raises(errors.IllegalTaskTransition):
        tasks.claim_for_person(cast.chain_of(ben), task)


def test_dependents_keep_waiting_and_nothing_cascades(board: Board, anna: Chain, flows: Chain) -> None:
    task = cast.filed(board, anna, "First")
    second = cast.filed(board, anna, "Second", deps=[task.public_id])
    tasks.withdraw(flows, task)
    assert (cast.fresh(second).status, cast.fresh(second).unmet_deps) == ("pending", 1)
    assert not Debt.objects.exists()


def test_a_cascade_still_owed_by_its_failure_does_nothing_after_the_withdraw(
    board: Board, anna: Chain, flows: Chain, payers: dict[str, Any]
) -> None:
    task = cast.filed(board, anna, "First")
    second = cast.filed(board, anna, "Second", deps=[task.public_id])
    pay, payers["cascade"] = payers["cascade"], lambda debt: 1 / 0
    tasks.fail(cast.agent_chain(board), task, "no", claim=cast.claimed(board).ticket)
    payers["cascade"] = pay
    tasks.withdraw(flows, task)
    Debt.objects.update(due_at=Now())
    assert paying.pay_due() == 1
    assert cast.fresh(second).status == "pending"


def test_what_it_filed_is_cancelled(board: Board, anna: Chain, flows: Chain) -> None:
    task = cast.filed(board, anna)
    child = tasks.file_task(cast.agent_chain(board), board, goal="Child", assignee="reader", filed_by_task=task)
    tasks.withdraw(flows, task)
    row = cast.fresh(child)
    assert (row.status, Event.objects.get(task=child, kind="task.cancelled").cause) == ("cancelled", "withdraw")
    assert "withdrawn, since its due time passed" in row.error
    assert row.withdrawn is None
    assert tasks.retry(anna, child).landed


@pytest.fixture
def asked(board: Board, anna: Chain) -> Hold:
    """A question midway, of a task that a drain works."""
    cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    return people.open_hold(cast.agent_chain(board), claim=ticket, kind="approval", prompt="Publish?", draft={"a": 1})


def test_the_clean_up_is_a_chain_stop_then_holds(asked: Hold, board: Board, anna: Chain, flows: Chain) -> None:
    tasks.withdraw(flows, asked.task)
    stop, discard = Debt.objects.get(kind="session_stop"), Debt.objects.get(kind="holds_discard")
    assert discard.after_id == stop.pk
    asked.refresh_from_db()
    assert asked.state == "open"
    with pytest.raises(errors.DueTimePassed, match="The due time passed") as refused:
        people.answer_hold(anna, asked.pk, choice="approve", shown_hash=asked.draft_hash)
    assert (refused.value.code, refused.value.http_status) == ("bad_state", 409)
    with pytest.raises(errors.DueTimePassed):
        people.dismiss_hold(anna, asked.pk)
    before = cast.fresh(asked.task).revision
    paying.pay(stop.pk)
    assert cast.fresh(asked.task).revision == before + 1  # a write of its own
    asked.refresh_from_db()
    assert (asked.state, asked.closed_reason) == ("discarded", "The due time passed.")
    assert (cast.fresh(asked.task).open_holds, Debt.objects.count()) == (0, 0)
    assert Event.objects.get(kind="hold.discarded").cause == "withdraw"


def test_a_due_hold_of_a_withdrawn_task_is_discarded_not_expired(asked: Hold, flows: Chain) -> None:
    Hold.objects.update(due_at=Now())
    tasks.withdraw(flows, asked.task)
    assert people.expire_due() == 0
    asked.refresh_from_db()
    assert asked.state == "open"


def test_what_waits_to_be_discarded_keeps_no_other_question_from_expiring(
    asked: Hold, board: Board, anna: Chain, flows: Chain
) -> None:
    tasks.withdraw(flows, asked.task)
    cast.filed(board, anna, "Another")
    ticket = cast.claimed(board).ticket
    other = people.open_hold(cast.agent_chain(board), claim=ticket, kind="approval", prompt="And this?")
    Hold.objects.filter(pk=asked.pk).update(due_at=Now() - timedelta(hours=1))
    Hold.objects.filter(pk=other.pk).update(due_at=Now())
    assert people.expire_due(limit=1) == 1
    states = dict(Hold.objects.values_list("pk", "state"))
    assert states == {asked.pk: "open", other.pk: "expired"}


def test_a_suspended_run_is_not_resumed(asked: Hold, board: Board, flows: Chain) -> None:
    ticket = tasks.mint(cast.fresh(asked.task), Attempt.objects.get().pk)
    people.suspend(ticket)
    tasks.withdraw(flows, asked.task)
    asked.refresh_from_db()
    assert asked.state == "discarded"
    assert not Debt.objects.exists()


def test_a_stop_that_does_not_succeed_holds_the_chain_for_a_while_and_stays_owed(
    asked: Hold, flows: Chain, settings: Any
) -> None:
    tasks.withdraw(flows, asked.task)
    settings.DRAIN_GRACE_MS = 10_000
    Debt.objects.filter(kind="session_stop").update(created_at=Now() - timedelta(seconds=39))
    assert sweeping.sweep_once().done["chains freed from a stop"] == 0
    Debt.objects.filter(kind="session_stop").update(created_at=Now() - timedelta(seconds=41))
    assert sweeping.sweep_once().done["chains freed from a stop"] == 1
    asked.refresh_from_db()
    assert asked.state == "discarded"
    assert [debt.kind for debt in Debt.objects.all()] == ["session_stop"]


def test_a_cancelled_turns_clean_up_never_goes_on_without_its_stop(board: Board, anna: Chain) -> None:
    task = cast.filed(board, anna)
    cast.claimed(board)
    tasks.cancel(anna, task)
    Debt.objects.create(kind="flow_advance", unique_key="next", task=task, after=Debt.objects.get())
    Debt.objects.update(created_at=Now() - timedelta(hours=1))
    assert sweeping.free_late_chains() == 0

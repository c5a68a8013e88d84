"""A step's due time: from its entry, kept by retries and waits, withdrawn once by the sweeper, moved by a person."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from boards import errors, flows, people, sweeping, tasks
from boards.debts import paying
from boards.flows import due_times
from boards.flows.definition import Action, StepDefinition
from boards.models import Attempt, Debt, Event, FlowRun, Hold, Space, Task, TranscriptItem, Visit
from boards.queries import sweeper
from boards.tasks import Reason
from tests import cast
from tests.flows.cast import Stage, fresh, open_hold, place, settle, step_task

pytestmark = pytest.mark.django_db(transaction=True)

TIMED = """
key: timed
name: Timed
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Write., max_attempts: 3, timeout_ms: 60000}
  - {key: done, name: Done}
"""
UNTIMED = TIMED.replace(", timeout_ms: 60000", "").replace("timed", "untimed")
PASSED = "The due time of Write passed, so its task was withdrawn."
ASKED = """
key: asked
name: Asked
steps:
  - {key: approve, name: Approve, kind: approval, timeout_ms: 60000}
  - {key: done, name: Done}
"""


def visit_of(run: FlowRun) -> Visit:
    found = fresh(run).current_visit
    assert found is not None
    return found


def let_pass(run: FlowRun, ago: timedelta = timedelta(seconds=1)) -> datetime:
    """The due time of the current stay lies in the past; answers which it is."""
    Visit.objects.filter(pk=visit_of(run).pk).update(due_at=Now() - ago)
    due_at = visit_of(run).due_at
    assert due_at is not None
    return due_at


@pytest.fixture
def run(stage: Stage) -> FlowRun:
    return stage.started(TIMED)


@pytest.mark.parametrize(
    ("step", "space_ms", "told"),
    [
        ({"kind": "agent", "timeout_ms": 5}, 9, 5),
        ({"kind": "agent"}, 9, 9),
        ({"kind": "agent"}, None, None),
        ({"kind": "task", "timeout_ms": 5}, None, 5),
        ({"kind": "task"}, 9, None),
        ({"kind": "column", "on_enter": (Action("auto_start"),), "timeout_ms": 5}, 9, 5),
        ({"kind": "column", "on_enter": (Action("auto_start"),)}, 9, None),
        ({"kind": "column", "timeout_ms": 5}, 9, None),
        ({"kind": "approval", "timeout_ms": 5}, 9, None),
        ({"kind": "input", "timeout_ms": 5}, 9, None),
        ({"kind": "stage", "timeout_ms": 5}, 9, 5),
        ({"kind": "parallel"}, 9, None),
    ],
)
def test_which_steps_have_a_due_time(step: dict[str, Any], space_ms: int | None, told: int | None) -> None:
    here = StepDefinition(key="a", name="A", position=0, **step)
    assert due_times.timeout_ms(here, Space(agent_timeout_ms=space_ms)) == told


def test_it_counts_from_the_entry_by_the_databases_clock(run: FlowRun) -> None:
    visit = visit_of(run)
    assert visit.due_at == visit.entered_at + timedelta(minutes=1)


def test_an_agent_step_that_names_none_takes_the_spaces(stage: Stage) -> None:
    assert visit_of(stage.started(UNTIMED)).due_at is None
    Space.objects.update(agent_timeout_ms=5_000)
    visit = visit_of(stage.started(UNTIMED))
    assert visit.due_at == visit.entered_at + timedelta(seconds=5)


def test_before_its_time_nothing_happens(run: FlowRun) -> None:
    assert flows.withdraw_due() == 0
    assert step_task(run).status == "pending"
    assert 0 < sweeping.seconds_to_next(1e9) <= 60


def test_past_it_the_task_is_withdrawn_by_the_flows_service_and_the_step_fails(run: FlowRun) -> None:
    due_at = let_pass(run)
    assert sweeping.sweep_once().done["tasks withdrawn"] == 1
    task = step_task(run)
    assert (task.status, task.error, task.cancelled_via) == ("cancelled", "The due time passed.", "flow")
    event = Event.objects.get(task=task, kind="task.withdrawn")
    assert (event.cause, event.data["due_at"]) == ("withdraw", due_at.isoformat())
    assert [hop["id"] for hop in event.chain] == ["sweeper", "flows"]
    assert (place(run), fresh(run).error) == (
        "write failed",
        "The due time of Write passed, so its task was withdrawn.",
    )
    failed = Event.objects.get(run=run, kind="step.failed")
    assert failed.cause == "timeout"
    assert not Debt.objects.exists()


def test_a_sweeper_that_is_an_hour_late_fires_once_and_names_the_true_time(run: FlowRun) -> None:
    due_at = let_pass(run, timedelta(hours=1))
    assert [sweeping.sweep_once().done["tasks withdrawn"] for _ in range(3)] == [1, 0, 0]
    assert Event.objects.get(kind="task.withdrawn").data["due_at"] == due_at.isoformat()
    assert Event.objects.filter(kind="step.failed").count() == 1


def test_a_sweepers_lag_is_since_then_until_it_has_seen_to_it(run: FlowRun) -> None:
    assert sweeper.watch().lag_s == 0
    due_at = let_pass(run, timedelta(hours=1))
    assert flows.late_since() == due_at
    assert 3_600 <= sweeper.watch().lag_s < 3_700
    sweeping.sweep_once()
    assert sweeper.watch().lag_s == 0


def test_retries_and_send_backs_keep_it(stage: Stage, run: FlowRun) -> None:
    due_at = visit_of(run).due_at
    stage.fail("There is no ink.")
    assert (place(run), visit_of(run).due_at) == ("write active", due_at)
    Task.objects.update(checker="person")
    stage.complete()
    tasks.send_back(stage.anna, step_task(run), "Once more.")
    assert (step_task(run).status, visit_of(run).due_at) == ("pending", due_at)
    let_pass(run)
    assert flows.withdraw_due() == 1


@pytest.mark.parametrize("status", ["pending", "held", "in_progress", "needs_check", "suspended"])
def test_it_passes_from_whatever_the_task_stands_in(status: str, stage: Stage, run: FlowRun) -> None:
    task = step_task(run)
    if status == "held":
        tasks.hold(stage.anna, task)
    if status == "needs_check":
        Task.objects.update(checker="person")
        stage.complete()
    if status in {"in_progress", "suspended"}:
        ticket = stage.claim().ticket
        if status == "suspended":
            people.open_hold(cast.agent_chain(stage.board), claim=ticket, kind="approval", prompt="May I?")
            people.suspend(ticket)
    let_pass(run)
    assert flows.withdraw_due() == 1
    assert step_task(run).withdrawn


def test_it_runs_on_while_the_task_waits_on_a_person(stage: Stage, run: FlowRun) -> None:
    ticket = stage.claim().ticket
    hold = people.open_hold(
        cast.agent_chain(stage.board), claim=ticket, kind="gate", prompt="Send?", draft={"to": "all"}
    )
    people.suspend(ticket)
    let_pass(run)
    sweeping.sweep_once()
    hold.refresh_from_db()
    assert (hold.state, hold.closed_reason) == ("discarded", "The due time passed.")
    assert place(run) == "write failed"


def test_the_clean_up_goes_in_its_order(stage: Stage, run: FlowRun) -> None:
    ticket = stage.claim().ticket
    people.open_hold(cast.agent_chain(stage.board), claim=ticket, kind="approval", prompt="May I?")
    let_pass(run)
    flows.withdraw_due()
    attempt = Attempt.objects.get()
    assert (attempt.ending, attempt.lend_ended_at is not None) == ("withdrawn", True)
    stop, discard, fail = (Debt.objects.get(kind=k) for k in ("session_stop", "holds_discard", "flow_failure_steps"))
    assert (stop.after_id, discard.after_id, fail.after_id) == (None, stop.pk, discard.pk)
    assert (stop.payer, discard.payer, fail.payer) == (f"drain:{cast.HERE['drain']}", "any", "any")
    assert (place(run), Hold.objects.get().state) == ("write active", "open")
    paying.pay(stop.pk)
    assert (place(run), Hold.objects.get().state) == ("write failed", "discarded")


def test_a_lend_that_cannot_be_ended_holds_the_rest(stage: Stage, run: FlowRun, payers: dict[str, Any]) -> None:
    stage.claim()
    let_pass(run)
    pay, payers["lend_end"] = payers["lend_end"], lambda debt: 1 / 0
    flows.withdraw_due()
    Debt.objects.filter(kind="session_stop").update(created_at=Now() - timedelta(hours=1))
    assert sweeping.free_late_chains() == 0
    assert Debt.objects.get(kind="session_stop").after_id is not None
    payers["lend_end"] = pay
    Debt.objects.update(due_at=Now())
    settle()
    assert Debt.objects.get(kind="session_stop").after_id is None


def test_a_finished_step_is_past_all_due_times(stage: Stage, run: FlowRun) -> None:
    stage.complete()
    assert place(run) == "done completed"
    Visit.objects.update(due_at=Now() - timedelta(seconds=1))
    assert flows.withdraw_due() == 0


def test_a_stuck_task_whose_step_has_failed_keeps_its_reason(stage: Stage, run: FlowRun) -> None:
    Task.objects.update(max_attempts=1)
    stage.fail("There is no ink.")
    let_pass(run)
    assert flows.withdraw_due() == 0
    assert step_task(run).error == "There is no ink."


def test_a_stuck_task_whose_step_has_not_failed_yet_is_withdrawn(
    stage: Stage, run: FlowRun, payers: dict[str, Any]
) -> None:
    Task.objects.update(max_attempts=1)
    pay, payers["flow_advance"] = payers["flow_advance"], lambda debt: 1 / 0
    stage.fail("There is no ink.")
    payers["flow_advance"] = pay
    let_pass(run)
    assert flows.withdraw_due() == 1
    Debt.objects.update(due_at=Now())
    settle()
    assert (place(run), fresh(run).error) == (
        "write failed",
        "The due time of Write passed, so its task was withdrawn.",
    )
    assert Event.objects.filter(kind="step.failed").count() == 1


def test_running_the_step_again_enters_it_anew_with_a_new_due_time(stage: Stage, run: FlowRun) -> None:
    first, late = step_task(run), let_pass(run)
    sweeping.sweep_once()
    flows.run_again(stage.anna, fresh(run))
    visit = visit_of(run)
    assert visit.due_at is not None
    assert visit.due_at > late
    assert step_task(run).pk != first.pk
    assert flows.withdraw_due() == 0


def test_a_paused_step_whose_time_has_come_is_not_retried_but_entered_anew(stage: Stage, run: FlowRun) -> None:
    first = step_task(run)
    flows.cancel_turn(stage.anna, fresh(run))
    settle()
    let_pass(run)
    assert flows.withdraw_due() == 0, "a cancelled task has ended"
    flows.run_again(stage.anna, fresh(run))
    assert step_task(run).pk != first.pk
    assert flows.withdraw_due() == 0


def test_a_run_that_is_cancelled_first_is_not_withdrawn_any_more(stage: Stage, run: FlowRun) -> None:
    let_pass(run)
    flows.cancel_run(stage.anna, fresh(run))
    assert flows.withdraw_due() == 0
    assert step_task(run).withdrawn is None


def test_one_that_cannot_be_withdrawn_keeps_no_other_from_it(
    stage: Stage, run: FlowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = stage.started(TIMED)
    let_pass(run, timedelta(seconds=5)), let_pass(other)
    real = tasks.withdraw_many

    def broken(chain: Any, due: dict[int, datetime], **options: Any) -> Any:
        if step_task(run).pk in due:
            raise ZeroDivisionError
        return real(chain, due, **options)

    monkeypatch.setattr(tasks, "withdraw_many", broken)
    with pytest.raises(ZeroDivisionError):
        flows.withdraw_due()
    assert (place(run), place(other)) == ("write active", "write failed")


def test_on_an_approval_it_is_the_questions_and_nothing_is_withdrawn(stage: Stage) -> None:
    run = stage.started(ASKED)
    hold = open_hold(run)
    assert visit_of(run).due_at == hold.due_at
    let_pass(run)
    assert flows.withdraw_due() == 0
    assert open_hold(run).state == "open"


# ---- moved by a person


def in_an_hour() -> datetime:
    return Visit.objects.annotate(now=Now()).values_list("now", flat=True)[0] + timedelta(hours=1)


def test_a_person_moves_it_with_a_reason(stage: Stage, run: FlowRun) -> None:
    was, to = visit_of(run).due_at, in_an_hour()
    assert was is not None
    flows.move_due_time(stage.anna, run, to, "The press is late.", visit_id=visit_of(run).pk)
    assert visit_of(run).due_at == to
    event = Event.objects.get(kind="step.due_moved")
    assert (event.run_id, event.task_id, event.actor) == (run.pk, step_task(run).pk, "Anna")
    assert (event.data["from"], event.data["to"]) == (was.isoformat(), to.isoformat())
    assert (event.data["text"], event.data["step"]) == ("The press is late.", "write")
    said = TranscriptItem.objects.filter(session=run.session_id).last()
    assert said is not None
    assert said.text.startswith("Anna moved the due time of Write to ")
    assert said.text.endswith(": The press is late.")


def test_the_question_of_an_approval_moves_with_it(stage: Stage) -> None:
    run, to = stage.started(ASKED), None
    to = in_an_hour()
    flows.move_due_time(stage.anna, run, to, "Ben is away.")
    assert (visit_of(run).due_at, open_hold(run).due_at) == (to, to)


def test_it_is_moved_only_ahead_and_only_while_it_has_not_come(stage: Stage, run: FlowRun) -> None:
    with pytest.raises(errors.InvalidInput, match="passed already"):
        flows.move_due_time(stage.anna, run, in_an_hour() - timedelta(hours=2), "Why not")
    with pytest.raises(errors.InvalidInput, match="reason"):
        flows.move_due_time(stage.anna, run, in_an_hour(), "  ")
    with pytest.raises(errors.InvalidInput, match="offset"):
        flows.move_due_time(stage.anna, run, in_an_hour().replace(tzinfo=None), "Why not")
    with pytest.raises(flows.RunMovedOn):
        flows.move_due_time(stage.anna, run, in_an_hour(), "Why not", visit_id=visit_of(run).pk + 1)
    let_pass(run)
    with pytest.raises(flows.IllegalRunMove, match="has passed"):
        flows.move_due_time(stage.anna, run, in_an_hour(), "Why not")
    assert not Event.objects.filter(kind="step.due_moved").exists()


def test_a_step_without_one_gets_none(stage: Stage) -> None:
    run = stage.started(UNTIMED)
    with pytest.raises(flows.IllegalRunMove, match="no due time"):
        flows.move_due_time(stage.anna, run, in_an_hour(), "Why not")


def test_viewers_and_strangers_move_nothing(stage: Stage, run: FlowRun) -> None:
    vera = cast.chain_of(cast.make_member(stage.space, "vera", "viewer"))
    with pytest.raises(errors.Forbidden):
        flows.move_due_time(vera, run, in_an_hour(), "Why not")
    elsewhere = cast.chain_of(cast.make_member(cast.make_space("other"), "otto"))
    with pytest.raises(errors.NotFound):
        flows.move_due_time(elsewhere, run, in_an_hour(), "Why not")


# ---- from the withdraw on


def test_while_its_worker_is_being_stopped_the_run_is_not_moved_on_by_hand(stage: Stage, run: FlowRun) -> None:
    stage.claim()
    let_pass(run)
    flows.withdraw_due()
    assert place(run) == "write active"
    for act in (
        lambda: flows.mark_complete(stage.anna, run),
        lambda: flows.run_again(stage.anna, run),
        lambda: flows.move(stage.anna, run, "done"),
        lambda: flows.move(stage.anna, run, "done", cancel_turn=True),
    ):
        with pytest.raises(flows.IllegalRunMove, match="still being stopped"):
            act()
    assert flows.cancel_turn(stage.anna, fresh(run)).reason is Reason.TERMINAL
    paying.pay(Debt.objects.get(kind="session_stop").pk)
    assert place(run) == "write failed"


def test_a_run_cancelled_while_the_stop_is_owed_stays_cancelled(stage: Stage, run: FlowRun) -> None:
    stage.claim()
    let_pass(run)
    flows.withdraw_due()
    flows.cancel_run(stage.anna, fresh(run))
    paying.pay(Debt.objects.get(kind="session_stop").pk)
    assert place(run) == "write cancelled"
    assert not Debt.objects.exists()
    assert Visit.objects.filter(due_at=F("due_at")).count() == 1

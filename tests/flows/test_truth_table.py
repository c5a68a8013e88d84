"""Every row of the truth table: in the pure decision, through engine and database, and through the pages' endpoints."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from boards import flows, people, tasks
from boards.debts import paying
from boards.flows import decisions
from boards.flows.decisions import How, Turn, Why
from boards.flows.definition import Action, FlowDefinition, StepDefinition
from boards.models import Debt, FlowRun, Hold, StepChange, Task
from boards.states import CAUSES, Cause
from tests import cast
from tests.flows import truth_table
from tests.flows.cast import Stage, fresh, place, settle, step_task
from tests.flows.truth_table import CANCEL, NATURAL, OTHER, Case, every_case, result_of

CASES = list(every_case())
OTHER_CAUSES = sorted(CAUSES - {Cause.USER_CANCEL})


def test_the_table_speaks_of_every_case_once() -> None:
    assert len({case for case in CASES if result_of(case)}) == len(CASES) == 96


# ---- the pure decision

HOW = {NATURAL: How.NATURAL, CANCEL: How.USER_CANCEL, OTHER: How.OTHER_STOP}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_decision(case: Case) -> None:
    effect = Action("set_data", options={"data": {"ran": True}})
    actions = (effect, Action("move_to_next")) if case.transition else (effect,)
    here = StepDefinition(
        key="work",
        name="Work",
        position=0,
        kind="agent",
        on_turn_complete=actions,
        auto_advance_requires_signal=case.gate,
        cancel_triggers_turn_complete=case.flag,
    )
    after = StepDefinition(key="next", name="Next", position=1)
    flow = FlowDefinition(key="f", name="F", steps=(here, after), style="board")
    turn = Turn(HOW[case.source], open_question=case.question, signal=case.signal)
    got = decisions.turn_complete(flow, here, turn, lambda _: True)
    match result_of(case):
        case truth_table.MOVES:
            assert got.target == "next"
        case truth_table.MOVES_WITH_SIGNAL:
            assert (got.target, got.uses_signal) == ("next", True)
        case truth_table.EFFECTS_RUN:
            assert (got.target, got.side_effects) == (None, (effect,))
        case truth_table.SIGNAL_CLEARED:
            assert (got.target, got.why, got.clears_signal, got.side_effects) == (None, Why.OPEN_QUESTION, True, ())
        case truth_table.STAYS:
            assert (got.target, got.side_effects) == (None, ())


# ---- engine and database, and the pages


def flow_text(case: Case, assignee: str) -> str:
    actions = "[{type: set_data, data: {ran: true}}" + (", move_to_next]" if case.transition else "]")
    return f"""
        key: table
        name: Table
        style: board
        steps:
          - key: work
            name: Work
            kind: task
            assignee: {assignee}
            prompt: Work.
            auto_advance_requires_signal: {str(case.gate).lower()}
            cancel_triggers_turn_complete: {str(case.flag).lower()}
            events: {{on_turn_complete: {actions}}}
          - {{key: next, name: Next}}
        """


def prepared(stage: Stage, case: Case, assignee: str = cast.WRITER) -> FlowRun:
    """The run stands in its step with what the case says; the turn has not ended yet."""
    run = stage.started(flow_text(case, assignee))
    visit = run.current_visit
    assert visit is not None
    if assignee == cast.WRITER:
        ticket = stage.claim().ticket
        if case.question and case.source != NATURAL:
            people.open_hold(cast.agent_chain(stage.board), claim=ticket, kind="question", prompt="Which one?")
    if case.question and case.source == NATURAL:  # a task's own question keeps it from ending at all
        people.open_step_hold(stage.anna, visit, kind="confirm", prompt="Is it so?")
    if case.signal:
        assert flows.signal(cast.agent_chain(stage.board), visit.pk, "It is complete.")
    return run


def stopped() -> None:
    """Whoever runs the worker has seen that it is gone."""
    for debt in Debt.objects.filter(kind="session_stop"):
        paying.pay(debt.pk)
    settle()


def judge(run: FlowRun, case: Case) -> None:
    now, result = fresh(run), result_of(case)
    moves = result in (truth_table.MOVES, truth_table.MOVES_WITH_SIGNAL)
    assert place(run) == ("next active" if moves else "work active")
    assert bool(now.data.get("ran")) is (moves or result == truth_table.EFFECTS_RUN)
    changes = StepChange.objects.filter(run=run, from_step="work")
    assert [change.trigger for change in changes] == (["on_turn_complete"] if moves else [])
    if result == truth_table.SIGNAL_CLEARED or moves:
        assert now.signal is None
    if result == truth_table.MOVES_WITH_SIGNAL:
        assert changes[0].signal["summary"] == "It is complete."
    if case.source != NATURAL:
        assert not Hold.objects.filter(task__visit__run=run, state="open").exists()
    if not moves:
        assert now.current_visit is not None
        assert now.current_visit.phase == ("waiting" if case.source == NATURAL else "paused")


@pytest.mark.django_db
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_engine(case: Case, stage: Stage) -> None:
    run = prepared(stage, case)
    task = step_task(run)
    if case.source == NATURAL:
        ticket = tasks.mint(task, task.attempt_rows.get().pk)
        assert tasks.complete(cast.agent_chain(stage.board), task, {"text": "Words"}, claim=ticket).landed
        settle()
    elif case.source == CANCEL:
        assert flows.cancel_turn(stage.anna, fresh(run)).landed
        assert place(run) == "work active", "the worker has not stopped yet"
    else:
        cause = OTHER_CAUSES[CASES.index(case) % len(OTHER_CAUSES)]
        assert tasks.cancel(stage.anna, task, "Not now.", cause=cause).landed
    stopped()
    judge(run, case)


@pytest.mark.django_db
@pytest.mark.parametrize("cause", OTHER_CAUSES)
def test_no_other_cause_completes_a_step(cause: str, stage: Stage) -> None:
    run = prepared(stage, Case(OTHER, gate=False, flag=True, question=False, signal=True, transition=True))
    assert tasks.cancel(stage.anna, step_task(run), "Not now.", cause=cause).landed
    stopped()
    assert place(run) == "work active"


def post(client: Client, name: str, *place: object, **form: str) -> None:
    answer = client.post(reverse(name, args=place), form, headers={"HX-Request": "true"})
    assert answer.status_code == 204, answer.content.decode()


def completed_on_its_page(client: Client, task: Task) -> None:
    where = (task.board.slug, task.public_id)
    post(client, "web:task_act", *where, "claim")
    post(client, "web:task_act", *where, "complete", output="Words")


@pytest.mark.django_db
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_pages(case: Case, stage: Stage) -> None:
    client = Client()
    client.force_login(stage.member.user)
    by_hand = case.source == NATURAL
    if by_hand:
        cast.put_on_roster(stage.board, stage.member)
    run = prepared(stage, case, "anna" if by_hand else cast.WRITER)
    task, parts = step_task(run), reverse("web:run_parts", args=["table", run.number])
    end: dict[str, Callable[[], None]] = {
        NATURAL: lambda: completed_on_its_page(client, task),
        CANCEL: lambda: post(client, "web:run_act", "table", run.number, "cancel_turn"),
        OTHER: lambda: post(client, "web:task_act", task.board.slug, task.public_id, "cancel"),
    }
    end[case.source]()
    settle()
    if not by_hand:
        assert "Stopping…" in client.get(parts).content.decode()
    stopped()
    judge(run, case)
    assert "Stopping…" not in client.get(parts).content.decode()

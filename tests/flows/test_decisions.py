"""Where a turn leads, row by row of the table in spec 05 section 3, and the rules of section 2.2."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from boards.flows import decisions
from boards.flows.decisions import How, Turn, Why
from boards.flows.definition import Action, FlowDefinition, StepDefinition

ALWAYS: Callable[[str], bool] = lambda condition: True  # noqa: E731
NEVER: Callable[[str], bool] = lambda condition: False  # noqa: E731
EFFECT = Action("set_data", options={"data": {"x": 1}})
NEXT = Action("move_to_next")


def flow_of(*steps: StepDefinition, style: str = "board") -> FlowDefinition:
    return FlowDefinition(key="f", name="F", steps=steps, style=style)


def step(key: str = "work", position: int = 0, **fields: object) -> StepDefinition:
    return StepDefinition(key=key, name=key.title(), position=position, **{"kind": "agent", **fields})  # type: ignore[arg-type]


def verdict(turn: Turn, *actions: Action, gate: bool = False, flag: bool = False) -> decisions.Verdict:
    here = step(on_turn_complete=actions, auto_advance_requires_signal=gate, cancel_triggers_turn_complete=flag)
    return decisions.turn_complete(flow_of(here, step("next", 1)), here, turn, ALWAYS)


BOTH = (False, True)


@pytest.mark.parametrize("flag", BOTH)
def test_natural_end_with_a_transition_moves(flag: bool) -> None:
    got = verdict(Turn(How.NATURAL), NEXT, flag=flag)
    assert (got.why, got.target, got.uses_signal) == (Why.MOVES, "next", False)


@pytest.mark.parametrize("flag", BOTH)
def test_natural_end_without_a_transition_stays_and_side_effects_run(flag: bool) -> None:
    got = verdict(Turn(How.NATURAL), EFFECT, flag=flag)
    assert (got.why, got.target, got.side_effects) == (Why.NO_TRANSITION, None, (EFFECT,))


@pytest.mark.parametrize("gate", BOTH)
@pytest.mark.parametrize("flag", BOTH)
@pytest.mark.parametrize("signal", BOTH)
@pytest.mark.parametrize("actions", [(), (NEXT,)])
def test_natural_end_with_an_open_question_stays_and_clears_the_signal(
    gate: bool, flag: bool, signal: bool, actions: tuple[Action, ...]
) -> None:
    got = verdict(Turn(How.NATURAL, open_question=True, signal=signal), *actions, gate=gate, flag=flag)
    assert (got.why, got.target, got.clears_signal) == (Why.OPEN_QUESTION, None, True)
    assert got.side_effects == ()


@pytest.mark.parametrize("flag", BOTH)
def test_natural_end_behind_the_gate_with_its_signal_moves_and_history_carries_it(flag: bool) -> None:
    got = verdict(Turn(How.NATURAL, signal=True), NEXT, gate=True, flag=flag)
    assert (got.why, got.target, got.uses_signal, got.clears_signal) == (Why.MOVES, "next", True, True)


@pytest.mark.parametrize("flag", BOTH)
@pytest.mark.parametrize("actions", [(), (NEXT,)])
def test_natural_end_behind_the_gate_without_a_signal_stays(flag: bool, actions: tuple[Action, ...]) -> None:
    got = verdict(Turn(How.NATURAL), *actions, gate=True, flag=flag)
    assert (got.why, got.target) == (Why.NO_SIGNAL, None)


@pytest.mark.parametrize("gate", BOTH)
@pytest.mark.parametrize("question", BOTH)
@pytest.mark.parametrize("signal", BOTH)
@pytest.mark.parametrize("actions", [(), (NEXT,)])
def test_user_cancel_with_the_flag_off_stays(
    gate: bool, question: bool, signal: bool, actions: tuple[Action, ...]
) -> None:
    got = verdict(Turn(How.USER_CANCEL, open_question=question, signal=signal), *actions, gate=gate)
    assert (got.why, got.target, got.side_effects) == (Why.CANCEL_PAUSES, None, ())


@pytest.mark.parametrize("gate", BOTH)
@pytest.mark.parametrize("signal", BOTH)
def test_user_cancel_with_the_flag_on_moves_and_ignores_the_gate(gate: bool, signal: bool) -> None:
    got = verdict(Turn(How.USER_CANCEL, signal=signal), NEXT, gate=gate, flag=True)
    assert (got.why, got.target) == (Why.MOVES, "next")


@pytest.mark.parametrize("gate", BOTH)
@pytest.mark.parametrize("signal", BOTH)
def test_user_cancel_with_the_flag_on_and_no_transition_stays_and_side_effects_run(gate: bool, signal: bool) -> None:
    got = verdict(Turn(How.USER_CANCEL, signal=signal), EFFECT, gate=gate, flag=True)
    assert (got.why, got.target, got.side_effects) == (Why.NO_TRANSITION, None, (EFFECT,))


@pytest.mark.parametrize("gate", BOTH)
@pytest.mark.parametrize("signal", BOTH)
@pytest.mark.parametrize("actions", [(), (NEXT,)])
def test_user_cancel_with_the_flag_on_keeps_the_question_barrier(
    gate: bool, signal: bool, actions: tuple[Action, ...]
) -> None:
    got = verdict(Turn(How.USER_CANCEL, open_question=True, signal=signal), *actions, gate=gate, flag=True)
    assert (got.why, got.target, got.clears_signal) == (Why.OPEN_QUESTION, None, True)


@pytest.mark.parametrize("gate", BOTH)
@pytest.mark.parametrize("flag", BOTH)
@pytest.mark.parametrize("question", BOTH)
@pytest.mark.parametrize("signal", BOTH)
def test_any_other_stop_stays(gate: bool, flag: bool, question: bool, signal: bool) -> None:
    turn = Turn(How.OTHER_STOP, open_question=question, signal=signal)
    got = verdict(turn, EFFECT, NEXT, gate=gate, flag=flag)
    assert (got.why, got.target, got.side_effects) == (Why.OTHER_STOP, None, ())


def test_a_step_that_cannot_be_read_stays() -> None:
    got = decisions.turn_complete(flow_of(step()), None, Turn(How.NATURAL, signal=True), ALWAYS)
    assert (got.why, got.target) == (Why.UNREADABLE, None)


CAUSES = (
    "question_timeout", "peer_interrupt", "parent_stop", "archive", "failure", "run_cancel", "teardown", "shutdown",
    "withdraw", "cascade", "join", "person", "worker", "",
)  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_only_the_cause_user_cancel_is_a_user_cancel(cause: str) -> None:
    assert decisions.ended_how("cancelled", cause) is How.OTHER_STOP
    assert decisions.ended_how("cancelled", "user_cancel") is How.USER_CANCEL
    assert decisions.ended_how("completed", cause) is How.NATURAL


def test_the_first_eligible_transition_wins_and_later_ones_are_not_looked_at() -> None:
    looked: list[str] = []

    def look(condition: str) -> bool:
        looked.append(condition)
        return condition == "second"

    here = step(
        on_turn_complete=(
            Action("move_to_step", "b", "first"),
            Action("move_to_step", "c", "second"),
            Action("move_to_step", "b", "third"),
        )
    )
    got = decisions.turn_complete(flow_of(here, step("b", 1), step("c", 2)), here, Turn(How.NATURAL), look)
    assert (got.target, looked) == ("c", ["first", "second"])


@pytest.mark.parametrize(
    ("at", "action"),
    [
        (2, Action("move_to_next")),  # next from the last
        (0, Action("move_to_previous")),  # previous from the first
        (1, Action("move_to_step", "b")),  # the current step
        (1, Action("move_to_step", "gone")),  # a missing one
    ],
)
def test_a_transition_that_leads_nowhere_is_passed_over(at: int, action: Action) -> None:
    steps = (step("a", 0), step("b", 1), step("c", 2))
    flow = flow_of(*steps)
    assert decisions.target_of(flow, steps[at], action) is None
    other = Action("move_to_step", "c" if at != 2 else "a")
    assert decisions.first_target(flow, steps[at], [action, other], ALWAYS) == other.step


def test_a_pipeline_moves_on_by_itself_and_a_board_waits() -> None:
    steps = (step("a", 0), step("b", 1))
    for style, target in (("pipeline", "b"), ("board", None)):
        got = decisions.turn_complete(flow_of(*steps, style=style), steps[0], Turn(How.NATURAL), ALWAYS)
        assert got.target == target


def test_a_no_takes_only_a_transition_whose_condition_matches() -> None:
    back, onward = Action("move_to_step", "a", "not output.approved"), Action("move_to_next")
    steps = [step("a", 0), step("ask", 1, kind="approval"), step("c", 2)]
    no, yes = Turn(How.ANSWERED, refused=True), Turn(How.ANSWERED)

    def ask(turn: Turn, *actions: Action, matches: bool, style: str = "pipeline") -> decisions.Verdict:
        here = step("ask", 1, kind="approval", on_turn_complete=actions)
        flow = flow_of(steps[0], here, steps[2], style=style)
        return decisions.turn_complete(flow, here, turn, ALWAYS if matches else NEVER)

    assert ask(no, back, onward, matches=True).target == "a"
    assert ask(no, back, onward, matches=False).why is Why.REFUSED
    assert ask(no, onward, matches=True).why is Why.REFUSED, "never one without a condition"
    assert ask(no, matches=True).why is Why.REFUSED, "nor the pipeline's move to the next"
    assert ask(yes, back, onward, matches=False).target == "c"
    assert ask(yes, matches=True).target == "c"


def test_a_message_from_a_person_clears_the_signal_and_may_move() -> None:
    steps = (step("a", 0, on_turn_start=(NEXT,)), step("b", 1))
    flow = flow_of(*steps)
    assert decisions.turn_start(flow, steps[0]).target == "b"
    assert decisions.turn_start(flow, steps[1]).target is None
    assert decisions.turn_start(flow, steps[1]).clears_signal


def test_marking_complete_moves_on_by_position_where_nothing_else_leads_on() -> None:
    steps = (step("a", 0, on_turn_complete=(Action("move_to_step", "c"),)), step("b", 1), step("c", 2))
    flow = flow_of(*steps)
    for here, target in zip(steps, ("c", "c", None), strict=True):
        got = decisions.turn_complete(flow, here, Turn(How.MARKED), ALWAYS)
        assert decisions.marked_target(flow, here, got) == target


def test_a_step_may_take_cards_from_its_neighbours_only() -> None:
    steps = (step("a", 0), step("b", 1), step("c", 2, allow_manual_move=False))
    flow = flow_of(*steps)
    assert "neighbouring" in decisions.manual_move_refusal(flow, steps[0], steps[2])
    assert decisions.manual_move_refusal(flow, steps[1], steps[2]) == ""
    assert decisions.manual_move_refusal(flow, steps[2], steps[0]) == ""

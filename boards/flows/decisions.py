"""Where a run goes next: pure functions of a definition and what is known of the turn (spec: 05 sections 2.2-2.4, 3).

Nothing here reads or writes a row. `boards.flows.advance` gathers the facts, asks, and writes the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from boards.flows.definition import Action, FlowDefinition, StepDefinition
from boards.states import Cause, RunStatus

USER_CANCEL: Final = Cause.USER_CANCEL


class How(StrEnum):
    """How a turn came to its end."""

    NATURAL = "natural"  # its task completed
    ANSWERED = "answered"  # a person answered the step's hold
    MARKED = "marked"  # a person said that the step is complete
    PASSED = "passed"  # nobody works the step itself: its time came, its branches joined, its child run ended
    USER_CANCEL = "user_cancel"  # a person cancelled this turn
    OTHER_STOP = "other_stop"  # anything else ended it; it never completes


class Why(StrEnum):
    """What decided; each is also the word stored with the operation."""

    MOVES = "moves"
    NO_TRANSITION = "no_transition"
    UNREADABLE = "step_unreadable"
    OPEN_QUESTION = "open_question"
    CANCEL_PAUSES = "cancel_pauses"
    NO_SIGNAL = "no_signal"
    OTHER_STOP = "other_stop"
    REFUSED = "refused"
    ASKS = "asks_before_the_move"


@dataclass(frozen=True, slots=True)
class Turn:
    """What is known of a turn that ended. `open_question`: a hold of it is, or at its cancel was, open.

    `refused`: its answer is a no (rejected, or past the due time); only a transition with `when:` may follow.
    """

    how: How
    open_question: bool = False
    signal: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where to go (`target`, a step's key) or why to stay; which side effects run; what becomes of the signal.

    `asks`: the transition that was chosen, where a person is to be asked before it is taken.
    """

    why: Why
    target: str | None = None
    side_effects: tuple[Action, ...] = ()
    clears_signal: bool = False
    uses_signal: bool = False
    asks: Action | None = None

    @property
    def moves(self) -> bool:
        return self.target is not None


def turn_complete(
    flow: FlowDefinition, step: StepDefinition | None, turn: Turn, matches: Callable[[str], bool]
) -> Verdict:
    """The verdict on a turn that ended, in the exact order of spec 05 section 2.4.

    `matches` works out a `when:`; what it raises passes through, and the caller fails the step with it.
    """
    if step is None:
        return Verdict(Why.UNREADABLE)
    if turn.how is How.OTHER_STOP:
        return Verdict(Why.OTHER_STOP)
    if turn.how is How.USER_CANCEL and not step.cancel_triggers_turn_complete:
        return Verdict(Why.CANCEL_PAUSES, clears_signal=turn.open_question)
    if turn.open_question:
        return Verdict(Why.OPEN_QUESTION, clears_signal=True)
    if turn.how is How.NATURAL and step.auto_advance_requires_signal and not turn.signal:
        return Verdict(Why.NO_SIGNAL)
    return _evaluate(flow, step, turn, matches)


def _evaluate(flow: FlowDefinition, step: StepDefinition, turn: Turn, matches: Callable[[str], bool]) -> Verdict:
    actions = flow.completion(step)
    effects = tuple(action for action in actions if not action.is_transition)
    eligible = [action for action in actions if action.when or not turn.refused]
    chosen = first_transition(flow, step, eligible, matches)
    if chosen is not None and asks_first(chosen[0]):
        return Verdict(Why.ASKS, None, effects, uses_signal=turn.signal, asks=chosen[0])
    if chosen is not None:
        return Verdict(Why.MOVES, chosen[1], effects, clears_signal=True, uses_signal=turn.signal)
    return Verdict(Why.REFUSED if turn.refused else Why.NO_TRANSITION, None, effects)


def turn_start(flow: FlowDefinition, step: StepDefinition) -> Verdict:
    """The verdict when a person's message is about to start a turn: it may move, and always clears the signal."""
    target = first_target(flow, step, step.on_turn_start, lambda _: True)
    return Verdict(Why.MOVES if target else Why.NO_TRANSITION, target, clears_signal=True)


def first_target(
    flow: FlowDefinition, step: StepDefinition, actions: Sequence[Action], matches: Callable[[str], bool]
) -> str | None:
    """The target of the first eligible transition; those after it are not even looked at."""
    chosen = first_transition(flow, step, actions, matches)
    return chosen[1] if chosen else None


def asks_first(action: Action) -> bool:
    """Whether a person has to say yes before this transition is taken."""
    return bool(action.options.get("requires_approval") or action.options.get("quorum"))


def first_transition(
    flow: FlowDefinition, step: StepDefinition, actions: Sequence[Action], matches: Callable[[str], bool]
) -> tuple[Action, str] | None:
    """The first eligible transition and the key of the step that it leads to."""
    for action in actions:
        target = target_of(flow, step, action)
        if target is not None and (not action.when or matches(action.when)):
            return action, target
    return None


def chosen_way(step: StepDefinition, flow: FlowDefinition, matches: Callable[[str], bool]) -> str | None:
    """The step that a `choice` leads to: its first way that holds and leads to another step of the flow."""
    for way in step.choices:
        if (not way.when or matches(way.when)) and way.step != step.key and flow.step(way.step) is not None:
            return way.step
    return None


def target_of(flow: FlowDefinition, step: StepDefinition, action: Action) -> str | None:
    """The key that a transition leads to, or None where it leads nowhere (spec: 05 section 2.2)."""
    found: StepDefinition | None = None
    match action.type:
        case "move_to_next":
            found = flow.neighbour(step, 1)
        case "move_to_previous":
            found = flow.neighbour(step, -1)
        case "move_to_step":
            found = flow.step(action.step)
    return None if found is None or found.key == step.key else found.key


def marked_target(flow: FlowDefinition, step: StepDefinition, verdict: Verdict) -> str | None:
    """Where *mark complete and advance* leads: as the turn's end would, else on by position; None: nothing follows."""
    if verdict.moves:
        return verdict.target
    follower = flow.neighbour(step, 1)
    return follower.key if follower else None


def ended_how(ending: str, cause: str) -> How:
    """How a step's turn ended, from its task's ending and the cause that was handed all the way here."""
    if ending == "completed":
        return How.NATURAL
    return How.USER_CANCEL if ending == "cancelled" and cause == USER_CANCEL else How.OTHER_STOP


ARCHIVED: Final = "The run is archived. Take it out of the archive first."


def move_refusal(
    flow: FlowDefinition,
    current: StepDefinition | None,
    target: StepDefinition,
    status: RunStatus,
    *,
    is_archived: bool,
) -> str:
    """Why a person may not move a card there, or ''; a task that works is another reason (spec: 05 section 2.7)."""
    if status is RunStatus.CANCELLED:
        return "The run was cancelled. Start it again instead."
    if is_archived:
        return ARCHIVED
    return manual_move_refusal(flow, current, target)


def manual_move_refusal(flow: FlowDefinition, current: StepDefinition | None, target: StepDefinition) -> str:
    """Why a person may not move a card there, or '' (spec: 05 section 1, `allow_manual_move`)."""
    if target.allow_manual_move or current is None or current.key == target.key:
        return ""
    if abs(flow.steps.index(current) - flow.steps.index(target)) == 1:
        return ""
    return f"A card may be moved to {target.name} from a neighbouring step only."

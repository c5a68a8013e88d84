"""A transition with `requires_approval`: a question is put before the move, and its yes takes it (spec: 05 section 1).

With a `quorum` several persons decide it (`boards.people.votes`). A no leaves the run where it stands. Works inside the
transaction of `advance`, under the run's lock.
"""

from __future__ import annotations

from typing import Any, Final

from boards import people
from boards.errors import InvalidInput
from boards.flows import decisions, runs
from boards.flows.definition import Action
from boards.flows.situation import Situation, move_to, signal_of
from boards.flows.works import ROLES, title_of
from boards.models import Hold, StepChange
from boards.states import HoldKind, HoldState, Phase

KEY: Final = "move:"  # what the dedup key of such a question begins with; then the action's place, then a number
REJECTED: Final = "rejected"


def is_of_move(hold: Hold) -> bool:
    return hold.source == Hold.Source.STEP and hold.dedup_key.startswith(KEY)


def ask(at: Situation, action: Action) -> str:
    """Put the question. Raises InvalidInput where nobody could ever decide it."""
    assert at.step is not None  # a step that cannot be read chooses nothing
    actions = at.flow.completion(at.step)
    target = at.flow.step(decisions.target_of(at.flow, at.step, action) or "")
    place, to = actions.index(action), target.name if target else ""
    earlier = Hold.objects.filter(visit=at.visit, dedup_key__startswith=f"{KEY}{place}:").count()
    people.open_step_hold(
        runs.chain_of(at.run),
        at.visit,
        kind=HoldKind.APPROVAL,
        prompt=f"May “{at.run.name}” move from {at.step.name} to {to}?",
        title=title_of(f"{at.step.name} → {to}", at.run),
        draft=at.visit.output,
        dedup_key=f"{KEY}{place}:{earlier + 1}",
        **_who(action),
    )
    runs.wait(at.run, at.visit, Phase.WAITING, at.chain, decisions.Why.ASKS.value)
    return decisions.Why.ASKS.value


def answered(at: Situation, hold: Hold) -> str:
    """The question before a move was closed: a yes moves, anything else leaves the run waiting in its step."""
    place = int(hold.dedup_key.split(":")[1])
    actions = at.flow.completion(at.step) if at.step else ()
    target = decisions.target_of(at.flow, at.step, actions[place]) if at.step and place < len(actions) else None
    yes = hold.state == HoldState.ANSWERED and (hold.answer or {}).get("choice") == "approve"
    if not yes or target is None:
        runs.wait(at.run, at.visit, Phase.WAITING, at.chain, REJECTED)
        return REJECTED
    signal = signal_of(at.run, at.visit)
    return move_to(at, target, hold.answered_by_name, StepChange.Trigger.APPROVAL, signal)


def _who(action: Action) -> dict[str, Any]:
    told = action.options.get("quorum")
    if not told:
        return {}
    role = str(told.get("role") or "")
    if role and role not in ROLES:
        raise InvalidInput(f"A quorum names the role “{role}”; there is member and operator.")
    threshold = str(told.get("threshold") or "all_approve")
    stored = str(ROLES[role]) if role else ""
    return {"assignee_role": stored, "quorum": {"role": stored, "threshold": threshold}}

"""What a trigger's handler knows, and the few things that all of them ask or do (spec: 05 section 2).

Works inside the transaction of `advance`, under the run's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Q

from boards.actors import Chain
from boards.flows import data, templating
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.flows.entering import Arrival, go
from boards.models import FlowRun, Hold, StepChange, Task, Visit
from boards.states import LIVE, HoldState, Status


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that a trigger's handler knows: the locked run, where it stands, and what came in."""

    run: FlowRun
    flow: FlowDefinition
    visit: Visit
    step: StepDefinition | None
    chain: Chain
    cause: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def open_question(at: Situation) -> bool:
    """An open hold of the current turn, or one that a cancel of this turn closed."""
    if at.facts.get("had_open_hold") and at.facts.get("ending") == Status.CANCELLED:
        return True
    of_turn = Q(visit=at.visit)
    if at.visit.task_id is not None:
        of_turn |= Q(task=at.visit.task_id)
    return Hold.objects.filter(of_turn, state=HoldState.OPEN).exists()


STARTED: Final = (Status.IN_PROGRESS, Status.NEEDS_CHECK)


def working(visit: Visit, statuses: Collection[str] = LIVE) -> Task | None:
    """A task of the visit that has not ended: its turn's, or that of one of its branches; only of these statuses."""
    keys = list(visit.branches.filter(outcome="", task__isnull=False).values_list("task", flat=True))
    if visit.task_id is not None:
        keys.append(visit.task_id)
    if not keys:
        return None
    return Task.objects.filter(pk__in=keys, status__in=sorted(statuses)).order_by("pk").first()


def signal_of(run: FlowRun, visit: Visit) -> dict[str, Any] | None:
    """The agent's word that its step is complete, where it was given in this visit and no person has written since."""
    if not run.signal or run.signal.get("visit") != visit.pk:
        return None
    return run.signal if run.signal.get("messages", 0) == messages_of(visit) else None


def messages_of(visit: Visit) -> int:
    """How many messages people have sent to the visit's turn."""
    steers = Task.objects.filter(pk=visit.task_id or 0).values_list("steers", flat=True).first()
    return len(steers or ())


def matcher(at: Situation) -> Callable[[str], bool]:
    """Works out a `when:`; what it may name is read with the first one, since most steps have none."""
    known: dict[str, Any] = {}

    def holds(condition: str) -> bool:
        if not known:
            known.update(data.values(at.run, at.flow, at.visit.output))
        return templating.holds(condition, known)

    return holds


def move_to(at: Situation, target: str, actor: str, change: StepChange.Trigger, signal: Any = None) -> str:
    step = at.flow.step(target)
    assert step is not None  # `decisions` answers keys of this version only
    go(at.run, at.flow, Arrival(step, at.chain, actor, change, signal, cause=at.cause))
    return f"moved to {target}"

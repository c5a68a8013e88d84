"""Who starts a step of a kind, and who looks at it again when one of its works has ended; filled by import.

The kinds need the engine and the engine needs the kinds, so they meet here, as debts meet their payers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from boards.actors import Chain
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.models import FlowRun, Visit

if TYPE_CHECKING:
    from boards.flows.situation import Situation

# Starts a step that was just entered; answers the fields that its visit is to say. What it raises fails the step.
Starter = Callable[[FlowRun, FlowDefinition, StepDefinition, Visit, Chain], dict[str, Any]]
# Looks at a step of which a branch has ended; answers the word that is stored with the operation.
Looker = Callable[["Situation"], str]

STARTERS: Final[dict[str, Starter]] = {}
LOOKERS: Final[dict[str, Looker]] = {}


def starts(kind: str) -> Callable[[Starter], Starter]:
    def register(starter: Starter) -> Starter:
        STARTERS[kind] = starter
        return starter

    return register


def looks(kind: str) -> Callable[[Looker], Looker]:
    def register(looker: Looker) -> Looker:
        LOOKERS[kind] = looker
        return looker

    return register

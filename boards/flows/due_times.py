"""Until when a stay in a step may last, and which of its works are past that (spec: 05 sections 1 and 4.1).

Pure but for the database's clock, which alone says when a time has come. `boards.flows.deadlines` acts on it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Now

from boards.flows.definition import ASKING_KINDS, StepDefinition
from boards.models import Branch, Space, Visit

# These file tasks in their own way; a due time that is written there holds for the whole stay.
_FILING_KINDS: Final = frozenset({"parallel", "stage", "loop"})


def timeout_ms(step: StepDefinition, space: Space) -> int | None:
    """How long a stay in the step may last: what the step says, and for an agent step else what the space says.

    None: as long as it takes. What asks a person has its due time on the question, where nothing is withdrawn.
    """
    if step.kind in ASKING_KINDS or not (step.files_task or step.kind in _FILING_KINDS):
        return None
    if step.timeout_ms is not None:
        return step.timeout_ms
    return space.agent_timeout_ms if step.kind == "agent" else None


def from_entry(step: StepDefinition, space: Space) -> Any:
    """The value of `Visit.due_at`: so long after the entry, by the database's clock; None for no due time."""
    span = timeout_ms(step, space)
    return None if span is None else F("entered_at") + timedelta(milliseconds=span)


def due_of(visit: Visit, branch: Branch | None) -> datetime | None:
    """When a work of the stay is due: its own time or that of the stay, whichever comes first.

    The steps of `on_failure` run behind the stay's end, so they have no due time but their own.
    """
    moments = [branch.due_at if branch else None]
    if branch is None or branch.role != Branch.Role.FAILURE:
        moments.append(visit.due_at)
    return min((moment for moment in moments if moment is not None), default=None)


def is_over(visit: Visit) -> bool:
    """Whether the stay's due time has passed, by the database's clock."""
    return Visit.objects.filter(pk=visit.pk, due_at__lte=Now()).exists()

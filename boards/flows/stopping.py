"""Whether a run waits for its turn to be stopped; until then nothing else moves it (spec: 05 sections 3.5 and 4.3)."""

from __future__ import annotations

from django.db.models import Q

from boards.flows.refusals import IllegalRunMove
from boards.models import Debt, Visit


def awaits_stop(visit: Visit) -> bool:
    """Whether what a cancelled or withdrawn turn does to the run stands behind its stop, or is about to happen."""
    behind = Q(kind="flow_advance", after__isnull=False) | Q(kind="flow_failure_steps")
    return Debt.objects.filter(behind, run=visit.run_id, data__visit=visit.pk, state=Debt.State.OWED).exists()


def answer_settles(visit: Visit) -> bool:
    """Whether an answer of this stay is about to move the run, once nobody can take it back any more."""
    return Debt.objects.filter(
        kind="flow_advance", run=visit.run_id, data__visit=visit.pk, data__trigger="hold_closed", state=Debt.State.OWED
    ).exists()


def refuse_stopping(visit: Visit) -> None:
    """Raises IllegalRunMove while the turn of the stay is being stopped."""
    if awaits_stop(visit):
        raise IllegalRunMove("Its turn is still being stopped; the run goes on by itself then.")

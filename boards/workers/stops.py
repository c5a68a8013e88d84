"""Pays the stops that a drain owes: a cancelled task's worker is ended where it runs, then the debt is
settled.

The write came first and its fence voids what the worker still says; the page shows "stopping…" until the
debt is paid (spec: 01 section 2, 07 section 2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from boards.debts import paying
from boards.models import Debt
from boards.workers.runner import Run


@dataclass
class Stops:
    """The stops of one drain: those whose worker was told and has not ended yet, by debt."""

    drain_id: UUID
    waiting: dict[int, Run] = field(default_factory=dict)

    @property
    def payer(self) -> str:
        return f"drain:{self.drain_id}"

    def look(self, running: Iterable[Run]) -> bool:
        """Tell the workers of new debts to stop, and pay what has stopped. Answers whether anything was
        paid.
        """
        live = list(running)
        due = set(paying.due_ids(self.payer))
        for debt in Debt.objects.filter(pk__in=due - set(self.waiting)):
            run = _run_of(debt, live)
            if run is not None:
                run.stop("stopped")
                self.waiting[debt.pk] = run
        ended = {debt_id for debt_id, run in self.waiting.items() if run not in live}
        for debt_id in ended:
            del self.waiting[debt_id]
        for debt_id in sorted(due - set(self.waiting)):
            paying.pay(debt_id)
        return bool(due - set(self.waiting))


def _run_of(debt: Debt, live: list[Run]) -> Run | None:
    """The run of the attempt that is to be stopped, where it is still here."""
    attempt = debt.data.get("attempt")
    for run in live:
        if run.ticket.task_key == debt.task_id and run.ticket.attempt == attempt:
            return run
    return None

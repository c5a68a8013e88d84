"""Pays the debts that an ending leaves about other tasks: the cascade, the tasks it filed, the stop (spec: 01).

Each is safe to repeat: it looks at the rows again under their locks and does nothing where the ending no longer holds.
"""

from __future__ import annotations

from boards.actors import service
from boards.debts.kinds import pays
from boards.models import Debt, Task, TaskDep
from boards.states import TERMINAL, Status, Verb
from boards.tasks import rows
from boards.tasks.cleaning import CASCADE_FROM, CASCADE_WAS_HELD
from boards.tasks.decisions import Options
from boards.tasks.endings import Settlement, settle_many

PER_TRANSACTION = 500
_ENDED_BADLY = (Status.ERRORED, Status.CANCELLED)


@pays("cascade")
def cascade(debt: Debt) -> bool:
    """Cancel the direct dependents that can no longer run; each of those owes its own cascade, so it goes all the way.

    False while there are more than one transaction should hold.
    """
    cause = debt.task
    if cause is None:
        return True
    keys = list(
        TaskDep.objects.filter(dependency=cause.pk, dependent__status__in=[Status.PENDING, Status.HELD])
        .order_by("dependent")
        .values_list("dependent", flat=True)[:PER_TRANSACTION]
    )
    locked = rows.lock([cause.pk, *keys])
    cause = locked[cause.pk]
    if not _still_ended_by(cause, debt):
        return True
    chain = service("sweeper", cause.board.space_id)
    settle_many(
        [
            Settlement(
                Verb.CANCEL,
                chain,
                key,
                Options(advisory=True),
                text=debt.data["reason"],
                via="cascade",
                cause="cascade",
                metadata={CASCADE_FROM: cause.public_id}
                | ({CASCADE_WAS_HELD: True} if locked[key].status == Status.HELD else {}),
            )
            for key in keys
            if key in locked and locked[key].status in {Status.PENDING, Status.HELD}
        ]
    )
    return len(keys) < PER_TRANSACTION


def _still_ended_by(cause: Task, debt: Debt) -> bool:
    return (
        str(cause.incarnation_id) == debt.data["incarnation"]
        and cause.attempts == debt.data["attempt"]
        and cause.status == debt.data["status"]
        and cause.status in _ENDED_BADLY
    )


@pays("children_cancel")
def children_cancel(debt: Debt) -> bool:
    """Cancel the tasks that the ended task had filed and that are still open."""
    parent = debt.task
    if parent is None:
        return True
    keys = list(
        Task.objects.filter(filed_by_task=parent.pk)
        .exclude(status__in=sorted(TERMINAL))
        .order_by("pk")
        .values_list("pk", flat=True)[:PER_TRANSACTION]
    )
    chain = service("sweeper", parent.board.space_id)
    reason = f"“{parent.label}”, which filed this, was cancelled."
    cause = debt.data.get("cause", "")
    settle_many(
        [
            Settlement(
                Verb.CANCEL,
                chain,
                key,
                Options(advisory=True),
                text=reason,
                via="cascade",
                cause=cause,
                cancel_filed=True,
            )
            for key in keys
        ]
    )
    return len(keys) < PER_TRANSACTION


@pays("session_stop")
def session_stop(debt: Debt) -> bool:
    """Paid by the drain that stopped its worker, or by the sweeper once that drain and the lease are dead.

    There is nothing to write: whoever calls this has seen that the worker is gone.
    """
    return True

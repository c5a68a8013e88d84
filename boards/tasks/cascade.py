"""Pays the debts that an ending leaves about other tasks: the cascade, the tasks it filed, the stop (spec: 01).

Each is safe to repeat: it looks at the rows again under their locks and does nothing where the ending no longer holds.
"""

from __future__ import annotations

from django.db.models.functions import Now

from boards.actors import service
from boards.debts.kinds import pays
from boards.locks import Rank, taking
from boards.models import Attempt, Debt, Task, TaskDep
from boards.states import TERMINAL, Cause, Status, Verb
from boards.tasks import rows
from boards.tasks.aftermath import WITHDRAW, Reason, close_holds
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
    # With what depends on them, as their own endings lock it: a second statement could lock against the order.
    beneath = TaskDep.objects.filter(dependency__in=keys).values_list("dependent", flat=True)
    locked = rows.lock([cause.pk, *keys, *beneath])
    cause = locked[cause.pk]
    if not _still_ended_by(cause, debt):
        return True
    # Again under the locks: somebody may have let a dependent go meanwhile.
    waiting = set(TaskDep.objects.filter(dependency=cause.pk, dependent__in=keys).values_list("dependent", flat=True))
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
                cause=Cause.CASCADE,
                metadata={CASCADE_FROM: cause.public_id}
                | ({CASCADE_WAS_HELD: True} if locked[key].status == Status.HELD else {}),
                told=frozenset(debt.data.get("told", ())),
            )
            for key in keys
            if key in waiting and locked[key].status in {Status.PENDING, Status.HELD}
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
    """Cancel what the ended task had filed until then and is still open; what it files after a retry is its own."""
    parent = debt.task
    if parent is None:
        return True
    keys = list(
        Task.objects.filter(filed_by_task=parent.pk, created_at__lte=debt.created_at)
        .exclude(status__in=sorted(TERMINAL))
        .order_by("pk")
        .values_list("pk", flat=True)[:PER_TRANSACTION]
    )
    chain = service("sweeper", parent.board.space_id)
    ended = "was withdrawn, since its due time passed" if parent.withdrawn else "was cancelled"
    reason = f"“{parent.label}”, which filed this, {ended}."
    # Nobody cancelled these themselves: the parent's own cause must not count as theirs.
    cause = WITHDRAW if parent.withdrawn else Cause.PARENT_STOP
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


@pays("lend_end")
def lend_end(debt: Debt) -> bool:
    """End what the worker of a withdrawn attempt was lent, and note since when it has nothing left.

    Its ticket is void since the withdraw's own write; this is the record of it, and the place for rights that are rows.
    """
    taking(Rank.ATTEMPT)
    Attempt.objects.filter(task=debt.task_id, number=debt.data["attempt"], lend_ended_at=None).update(
        lend_ended_at=Now()
    )
    return True


@pays("holds_discard")
def holds_discard(debt: Debt) -> bool:
    """Discard what a withdrawn task still asks, with the reason in words."""
    task = debt.task
    if task is None:
        return True
    row, _ = rows.lock_one(task)
    if row.withdrawn and row.open_holds:
        chain = service("flows", row.board.space_id)
        close_holds({row.pk: Reason(chain, debt.data["reason"], WITHDRAW)})
    return True


@pays("resume")
def resume(debt: Debt) -> bool:
    """Paid by the drain that took the cancelled run up once more, when that is over. There is nothing to write."""
    return True


@pays("session_stop")
def session_stop(debt: Debt) -> bool:
    """Paid by the drain that stopped its worker, or by the sweeper once that drain and the lease are dead.

    There is nothing to write: whoever calls this has seen that the worker is gone.
    """
    return True

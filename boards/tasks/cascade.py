"""Pays the debts that an ending leaves about other tasks: the cascade, the tasks it filed, the stop (spec: 01).

Each is safe to repeat: it looks at the rows again under their locks and does nothing where the ending no longer holds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db.models.functions import Now

from boards.actors import service
from boards.debts.kinds import pays, pays_many
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
    if debt.task_id is None:
        return True
    edges = _waiting([debt.task_id])
    return not _cancel([debt], edges) or len(edges) < PER_TRANSACTION


@pays_many("cascade")
def cascades(debts: Sequence[Debt]) -> Collection[int]:
    """The same for many; none is settled where all their dependents are more than one transaction should hold."""
    edges = _waiting([debt.task_id for debt in debts if debt.task_id is not None])
    if len(edges) >= PER_TRANSACTION:
        return ()
    _cancel(debts, edges)
    return [debt.pk for debt in debts]


def _waiting(causes: Sequence[int]) -> list[tuple[int, int]]:
    """(cause, dependent) of those that wait, as many as one transaction should hold, in the order of locking."""
    waiting = TaskDep.objects.filter(dependency__in=causes, dependent__status__in=[Status.PENDING, Status.HELD])
    return list(waiting.order_by("dependent").values_list("dependency", "dependent")[:PER_TRANSACTION])


def _cancel(debts: Sequence[Debt], edges: Sequence[tuple[int, int]]) -> bool:
    """Cancel those dependents; whether any of the endings still holds."""
    causes = {debt.task_id: debt for debt in debts if debt.task_id is not None}
    keys = {dependent for _, dependent in edges}
    # With what depends on them, as their own endings lock it: a second statement could lock against the order.
    beneath = TaskDep.objects.filter(dependency__in=keys).values_list("dependent", flat=True)
    locked = rows.lock([*causes, *keys, *beneath])
    # Again under the locks: somebody may have let a dependent go meanwhile.
    waiting = set(
        TaskDep.objects.filter(dependency__in=causes, dependent__in=keys).values_list("dependency", "dependent")
    )
    ended = {cause for cause, debt in causes.items() if _still_ended_by(locked[cause], debt)}
    settle_many(
        [
            _cancelled(causes[cause], locked[cause], locked[key])
            for cause, key in edges
            if cause in ended and (cause, key) in waiting and locked[key].status in {Status.PENDING, Status.HELD}
        ]
    )
    return bool(ended)


def _cancelled(debt: Debt, cause: Task, dependent: Task) -> Settlement:
    was_held = {CASCADE_WAS_HELD: True} if dependent.status == Status.HELD else {}
    return Settlement(
        Verb.CANCEL,
        service("sweeper", cause.board.space_id),
        dependent.pk,
        Options(advisory=True),
        text=debt.data["reason"],
        via="cascade",
        cause=Cause.CASCADE,
        metadata={CASCADE_FROM: cause.public_id} | was_held,
        told=frozenset(debt.data.get("told", ())),
    )


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
        rows.write(row, {"open_holds": 0})  # a write of its own, unlike where an ending closes them
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

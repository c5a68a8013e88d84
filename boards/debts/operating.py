"""What an operator may do about a debt: have it paid again, or drop it (spec: 04 section 3, 07 section 2).

A stop is never dropped: its worker may still be running, and only the drain that runs it knows when it is not.
"""

from __future__ import annotations

from django.db.models.functions import Now

from boards import policy
from boards.actors import Chain
from boards.debts import paying
from boards.debts.paying import Paid
from boards.errors import Forbidden, NotFound
from boards.event_log import Entry, record
from boards.locks import Rank, engine_transaction, taking
from boards.models import Debt

STOP = "session_stop"
# What nobody can pay any more, and an operator only marks as seen.
SEEN_ONLY = frozenset({"record_ending", "recorder_failure", "recount"})


def pay_again(chain: Chain, debt_id: int) -> Paid:
    """Make a debt due now, with its age and tries counted anew, and pay it where anyone may.

    One that only a drain can pay is left due for the drain: PAID says so. Raises NotFound and Forbidden.
    """
    debt = _renew(chain, debt_id)
    return paying.pay(debt_id) if debt.payer == "any" else Paid.PAID


@engine_transaction
def _renew(chain: Chain, debt_id: int) -> Debt:
    debt = _lock(chain, debt_id, "debts.pay")
    Debt.objects.filter(pk=debt.pk).update(state=Debt.State.OWED, tries=0, due_at=Now(), created_at=Now())
    _record("debt.paid_again", chain, debt)
    return debt


def drop(chain: Chain, debt_id: int) -> str:
    """Give up a debt that failed for good; what was chained to it falls due. Never a stop, never one that is still
    tried. Answers its kind. Raises NotFound and Forbidden.
    """
    kind, freed = _drop(chain, debt_id)
    for each in freed:
        paying.pay(each)
    return kind


@engine_transaction
def _drop(chain: Chain, debt_id: int) -> tuple[str, tuple[int, ...]]:
    debt = _lock(chain, debt_id, "debts.drop")
    if debt.kind == STOP:
        raise Forbidden("A stop is never dropped: the worker may still run. End it on its host, then pay it again.")
    if debt.state != Debt.State.UNDELIVERABLE:
        raise Forbidden("This is still being tried. Only what failed for good can be dropped.")
    freed = paying.free(debt.pk)
    Debt.objects.filter(pk=debt_id).delete()
    _record("debt.dropped", chain, debt)
    return debt.kind, freed


def _lock(chain: Chain, debt_id: int, action: str) -> Debt:
    taking(Rank.DEBT)
    rows = Debt.objects.select_related("task__board", "run__flow").select_for_update(of=("self",), no_key=True)
    debt = rows.filter(pk=debt_id).first()
    if debt is None or space_of(debt) != chain.space_id:
        raise NotFound("It is paid already.")
    policy.require(chain, action, chain.space_id)
    return debt


def space_of(debt: Debt) -> int | None:
    """The space that a debt belongs to, by its task or its run."""
    if debt.task is not None:
        return debt.task.board.space_id
    return debt.run.flow.space_id if debt.run is not None else None


def _record(kind: str, chain: Chain, debt: Debt) -> None:
    board_id = debt.task.board_id if debt.task else debt.run.flow.board_id if debt.run else None
    record(
        Entry(
            kind,
            chain,
            board_id=board_id,
            task_key=debt.task_id,
            run_id=debt.run_id,
            data={"debt": debt.kind, "text": debt.last_error[:500]},
        )
    )

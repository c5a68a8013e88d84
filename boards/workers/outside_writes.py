"""One write of an outside worker: while its key stands and its claim holds, once under an idempotency key; and how what
declines it is told.

Whether the key still stands is asked inside the write, so that once a revoke has answered nothing more is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models.functions import Now

from boards import errors, keys
from boards.locks import engine_transaction
from boards.models import Task
from boards.tasks import Reason, TaskWriteOutcome, decisions, idempotency
from boards.workers.outside_claims import Held


def written(
    own: Held,
    verb: str,
    told: Any,
    act: Callable[[], TaskWriteOutcome],
    idempotency_key: str,
    declined: Callable[[TaskWriteOutcome], None] | None = None,
) -> TaskWriteOutcome:
    """One write under the ticket while the key stands, once under its idempotency key. Raises what declines it."""

    @engine_transaction
    def write() -> TaskWriteOutcome:
        keys.require_standing(own.key_id)
        return act()

    said = [own.ticket.attempt_key, own.ticket.grant_no, told]
    outcome = idempotency.once(own.caller, f"work.{verb}", idempotency_key, own.task, said, write)
    if not outcome.landed:
        if declined is not None:
            declined(outcome)
        # A claim that is lost says so, whatever its verb would need besides: it alone means that the worker stops.
        gone = lost(own) if outcome.reason is Reason.DISALLOWED else None
        raise gone or refused(own, outcome)
    return outcome


def refused(own: Held, outcome: TaskWriteOutcome) -> errors.Refusal:
    """A decline as the refusal that every door shows."""
    facts = {"reason": outcome.reason.value if outcome.reason else None, "status_seen": outcome.status}
    facts["task_id"] = own.ticket.task_id
    if Task.objects.filter(pk=own.ticket.task_key, withdrawn__isnull=False).exists():
        return errors.DueTimePassed("The due time passed, so the task was withdrawn. Stop working on it.", **facts)
    return errors.TaskWriteDeclined(outcome.sentence or "The claim has moved on.", **facts)


def lost(own: Held) -> errors.Refusal | None:
    """Why nothing more is done under the claim: it holds no more, or its result is handed in. None where it may be."""
    row = row_of(own)
    refusal = decisions.lost(own.ticket, row, row.db_now)
    if refusal is None and decisions.waits_for_filed(row):
        refusal = decisions.handed_in(row)
    return None if refusal is None else refused(own, refusal)


def require_started(own: Held, *, hands_in: bool = False) -> None:
    """Work is done by a run that was started: only that makes a ticket which is delivered twice start once. Nor is any
    done once the result is handed in; a repeat of the hand-in (`hands_in`) is judged by its own write.
    """
    row = own.task
    if row.grant_no == own.ticket.grant_no and row.attempts == own.ticket.attempt and row.run is None:
        raise lost(own) or errors.NotStarted(task_id=own.ticket.task_id)
    if decisions.waits_for_filed(row) and not hands_in and (refusal := lost(own)):
        raise refusal


def row_of(own: Held, *, whole: bool = False) -> Any:
    """The row as it is, with its board, and in `db_now` the time by the database's clock; `whole`: with its texts."""
    rows = Task.objects.select_related("board").annotate(db_now=Now()).filter(pk=own.ticket.task_key)
    row = (rows if whole else rows.defer(*keys.LONG_FIELDS)).first()
    if row is None:
        raise errors.TicketRefused
    return row

"""The gate: the check at the receiving end of a hand-over, and the one write by which a run starts (spec: 03, 4.2).

The row is read again and compared with the ticket; a lease that ran out while the run waited in a queue is taken back;
then the run link is set where none is set on this grant. So a ticket that is delivered twice starts once. Claims and
resumes take the link away again, nothing else does.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from django.db import connection

from boards import errors
from boards.actors import Chain
from boards.event_log import Entry
from boards.locks import Rank, engine_transaction, taking
from boards.models import Attempt, Task
from boards.states import Status
from boards.tasks import aftermath, begun, rows
from boards.tasks.claims import LARGEST_LEASE_MS, RUN_LINK, SMALLEST_LEASE_MS
from boards.tasks.cleaning import checked_int
from boards.tasks.types import Claimed, Start, Ticket


class Stale(StrEnum):
    """Why a hand-over starts nothing, in the order in which it is looked at."""

    NO_TASK = "no_such_task"
    INCARNATION = "another_incarnation"
    STATUS = "not_in_progress"
    ATTEMPT = "another_attempt"
    GRANT = "another_grant"
    ASSIGNEE = "another_assignee"
    STARTED = "already_started"


WORDS: Final = {
    Stale.NO_TASK: "There is no such task any more.",
    Stale.INCARNATION: "Another task has that id now.",
    Stale.STATUS: "Nobody works on the task any more: it is {label}.",
    Stale.ATTEMPT: "Somebody else has taken the task: it is at attempt {attempts}.",
    Stale.GRANT: "The task was handed out again since, on the same attempt.",
    Stale.ASSIGNEE: "The task was assigned to {assignee} meanwhile.",
    Stale.STARTED: "This run was started already. A ticket starts once.",
}


@dataclass(frozen=True, slots=True)
class Started:
    """A run that works its grant: the row as it is now, and the session it speaks in."""

    task: Task
    session_id: uuid.UUID
    request_id: str


def stale(ticket: Ticket, task: Task | None, assignee: str) -> Stale | None:
    """Why this ticket starts nothing on this row; None where it does. A lease that ran out is no reason. Pure.

    `assignee`: whom the row was claimed for.
    """
    if task is None:
        return Stale.NO_TASK
    same = (task.pk, task.board_id, task.partition, task.public_id) == (
        ticket.task_key,
        ticket.board_id,
        ticket.partition,
        ticket.task_id,
    )
    if not same or (task.incarnation_id, task.created_at) != (ticket.incarnation_id, ticket.created_at):
        return Stale.INCARNATION
    if task.status != Status.IN_PROGRESS:
        return Stale.STATUS
    if task.attempts != ticket.attempt:
        return Stale.ATTEMPT
    if task.grant_no != ticket.grant_no:
        return Stale.GRANT
    if task.assignee != assignee:
        return Stale.ASSIGNEE
    return Stale.STARTED if task.run is not None else None


@engine_transaction
def start(chain: Chain, ticket: Ticket, who: str, words: str, *, lease_ms: int | None = None) -> Started:
    """Start the run of this grant, once; its lease lasts `lease_ms` from now on, or as long as the claim said.

    `who` works it, and `words` is the first line of its transcript. Raises StaleTaskClaim with its reason, writing
    nothing, and InvalidInput for a span out of range.
    """
    if lease_ms is not None:
        checked_int(lease_ms, "lease_ms", SMALLEST_LEASE_MS, LARGEST_LEASE_MS)
    task = rows.lock([ticket.task_key]).get(ticket.task_key)
    claimed_for = Attempt.objects.filter(pk=ticket.attempt_key).values_list("assignee", flat=True).first()
    reason = stale(ticket, task, claimed_for or "")
    if reason is None and task is not None and not _link(ticket, lease_ms):
        reason = Stale.STARTED
    if reason is not None or task is None:
        raise _refusal(reason or Stale.NO_TASK, ticket, task)
    started = Task.objects.select_related("board").get(pk=task.pk)
    link: dict[str, Any] = started.run or {}
    session_id = uuid.UUID(link["session_id"])
    taking(Rank.ATTEMPT)
    Attempt.objects.filter(pk=ticket.attempt_key).update(session=session_id)
    entry = Entry(
        "task.run_linked",
        chain,
        board_id=ticket.board_id,
        task_key=ticket.task_key,
        run_id=aftermath.run_of(started),
        attempt=ticket.attempt,
    )
    begun.leave([Claimed(started, ticket)], [Start(who, words)], [entry])
    return Started(started, session_id, link["request_id"])


def _link(ticket: Ticket, lease_ms: int | None) -> bool:
    """The one conditional write; whether it landed."""
    with connection.cursor() as cursor:
        cursor.execute(_START, [lease_ms, lease_ms, ticket.task_key, ticket.grant_no, ticket.attempt])
        return cursor.rowcount == 1


_START: Final = f"""
    update boards_task t
       set run = {RUN_LINK.format(new=0)}, lease_duration_ms = coalesce(%s, t.lease_duration_ms),
           lease_until = statement_timestamp() + make_interval(secs => coalesce(%s, t.lease_duration_ms) / 1000.0),
           revision = t.revision + 1, updated_at = statement_timestamp()
     where t.pk = %s and t.grant_no = %s and t.attempts = %s and t.status = 'in_progress' and t.run is null
       and t.lease_until is not null"""


def _refusal(reason: Stale, ticket: Ticket, task: Task | None) -> errors.StaleTaskClaim:
    facts: dict[str, Any] = {"reason": reason.value, "task_id": ticket.task_id}
    if task is None:
        return errors.StaleTaskClaim(WORDS[reason], **facts)
    words = WORDS[reason].format(
        label=Status(task.status).label, attempts=task.attempts, assignee=task.assignee or "nobody"
    )
    return errors.StaleTaskClaim(words, **facts, status_seen=task.status)

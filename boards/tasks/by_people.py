"""A person's claim: no lease, no renewal, and the server keeps the ticket (spec: 02 sections 3-4)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from boards import errors, policy
from boards.actors import Chain
from boards.event_log import Entry, record_all
from boards.locks import Rank, engine_transaction, taking
from boards.models import Attempt, RosterEntry, Task
from boards.states import Status
from boards.tasks import aftermath, decisions, follow_ups, partitions, plain_rows, rows
from boards.tasks.claims import OPEN_ATTEMPTS, mint
from boards.tasks.types import Claimed, Ticket


@engine_transaction
def claim_for_person(chain: Chain, task: Task | int) -> Claimed:
    """Start a task that is assigned to the person; their claim carries no lease, and the server keeps the ticket."""
    row, now = _lock_with_root(task)
    if row.board.space_id != chain.space_id:
        raise errors.TaskNotFound
    partitions.require_own(chain, row)
    policy.require(chain, "tasks.claim", row.board.space_id)
    if chain.acting.kind != "person":
        raise errors.Forbidden("Only a person starts a task that is assigned to a person.")
    entry = row.board.roster.filter(name=row.assignee, kind=RosterEntry.Kind.PERSON, user=chain.user_id).first()
    if entry is None:
        raise errors.Forbidden("This task is assigned to somebody else.")
    if row.status != Status.PENDING or not decisions.is_claimable(row, now):
        raise errors.IllegalTaskTransition(row.public_id, row.status, Status.IN_PROGRESS, "This task cannot start yet.")
    if other := follow_ups.at_work(row):
        raise errors.IllegalTaskTransition(
            row.public_id,
            row.status,
            Status.IN_PROGRESS,
            f"“{other.label}” of the same chain is being worked; they run one at a time.",
        )
    claimed_by = {"user": chain.user_id}
    changes: dict[str, Any] = {
        "status": Status.IN_PROGRESS,
        "grant_no": row.grant_no + 1,
        "attempts": row.attempts + 1,
    }
    changes |= {"claimed_by": claimed_by, "run": None, "status_note": "", "not_before": None}
    changes |= {"started_at": row.started_at or rows.NOW}
    if not rows.write(row, changes):
        raise errors.IllegalTaskTransition(row.public_id, row.status, Status.IN_PROGRESS)
    taking(Rank.ATTEMPT)
    (opened,) = plain_rows.answers([(OPEN_ATTEMPTS, [json.dumps(claimed_by), [row.pk]])])
    record_all(
        [
            Entry(
                "task.claimed",
                chain,
                board_id=row.board_id,
                task_key=row.pk,
                run_id=aftermath.run_of(row),
                from_status=Status.PENDING,
                to_status=Status.IN_PROGRESS,
                attempt=row.attempts,
            )
        ]
    )
    return Claimed(row, mint(row, opened[0][1]))


def _lock_with_root(task: Task | int) -> tuple[Task, datetime]:
    """The row, and the root of its chain where it is a follow-up: whoever claims in a chain holds its root."""
    key = task.pk if isinstance(task, Task) else task
    root = Task.objects.filter(pk=key).values_list("follow_up_of", flat=True).first()
    locked = rows.lock([key, *([root] if root else [])])
    if key not in locked:
        raise errors.TaskNotFound
    return locked[key], locked.now


def person_ticket(chain: Chain, task: Task) -> Ticket | None:
    """The ticket that the server keeps for the person who works the task; None for anybody else."""
    if task.status != Status.IN_PROGRESS or (task.claimed_by or {}).get("user") != chain.user_id or not chain.user_id:
        return None
    if task.board.space_id != chain.space_id or not policy.allowed(chain, "tasks.complete"):
        return None
    attempt_key = Attempt.objects.filter(task=task, ended_at__isnull=True).values_list("pk", flat=True).first()
    return mint(task, attempt_key) if attempt_key else None

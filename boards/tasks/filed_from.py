"""Where a filing comes from: a flow's visit, the turn that works a task, a session; and under which claim it is judged.

Reads only; `filing` looks again at the parent's locked row and writes.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from boards import errors
from boards.actors import Chain
from boards.models import Task, Visit
from boards.states import Status
from boards.tasks.current import current_claim
from boards.tasks.progress import LostClaim
from boards.tasks.types import Ticket


@dataclass(frozen=True, slots=True)
class Context:
    """Where a filing comes from: the visit of a flow run, the task whose turn files it, the session it is filed in."""

    visit: Visit | None = None
    filed_by_task: Task | None = None
    session_id: uuid.UUID | None = None
    allow_same: bool = False
    idempotency_key: str = ""
    claim: Ticket | None = None
    judged: bool = True  # by the board's schema of inputs
    partition: str = ""  # computed from the chain; no caller gives it


def turn_of(chain: Chain, context: Context) -> Context:
    """A filing from a turn that works a task says which task, and is judged under its claim; unless it is a flow's
    step, or the caller has named another task. Raises LostClaim where that task is gone.
    """
    claim = current_claim()
    if claim is None or context.visit is not None:
        return context
    parent = context.filed_by_task
    if parent is None:
        parent = Task.objects.select_related("board").filter(pk=claim.task_key).first()
        if parent is None:
            raise LostClaim
        if parent.board.space_id != chain.space_id:
            return context
    if parent.pk != claim.task_key:
        return context
    return replace(context, filed_by_task=parent, claim=context.claim or claim)


def check_parent(chain: Chain, context: Context) -> None:
    """Early, so that it costs no lock; the filing looks again at the locked row."""
    if context.filed_by_task is None:
        return
    parent = Task.objects.filter(pk=context.filed_by_task.pk, board__space=chain.space_id).first()
    if parent is None:
        raise errors.TaskNotFound
    if parent.status == Status.CANCELLED:
        raise errors.ParentCancelled

"""Reads that the engine offers to code: one task, many tasks, what a worker needs of its dependencies."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q

from boards.actors import Chain
from boards.errors import TaskNotFound
from boards.models import Board, Session, Task
from boards.stored_text import clean_text
from boards.tasks import partitions
from boards.tasks.follow_ups import current_of


def get_task(chain: Chain, board: Board, public_id: str, *, partition: str | None = None) -> Task:
    """The task of that id on the board, with its `current`; TaskNotFound for anything that is not there for the caller.

    `partition`: the key that `partition_of` or `find_task_partitions` answered; None is the caller's own.
    """
    within = _partition(chain, board, partition)
    # No id holds what the cleaning puts in, and the database takes nothing else.
    named = Task.objects.filter(board=board, partition=within, public_id=clean_text(public_id))
    task = named.select_related("board").first()
    if task is None or board.space_id != chain.space_id:
        raise TaskNotFound
    partitions.require_own(chain, task)
    return with_current([task])[0]


def list_tasks(
    chain: Chain,
    board: Board,
    *,
    partition: str | None = None,
    status: str = "",
    assignee: str = "",
    label: str = "",
    limit: int = 200,
) -> list[Task]:
    """Tasks of a board, or of one partition of it, in claim order, narrowed where a filter is given.

    `partition` as of `get_task`. Empty for what is not there for the caller; raises NoPartition for one who has none.
    """
    within = _partition(chain, board, partition)
    if board.space_id != chain.space_id or not partitions.reaches(chain, Task(board=board, partition=within)):
        return []
    tasks = Task.objects.filter(board=board, partition=within).order_by("created_at", "pk")
    if status:
        tasks = tasks.filter(status=clean_text(status))
    if assignee:
        tasks = tasks.filter(assignee=clean_text(assignee))
    if label:
        tasks = tasks.filter(labels__contains=[clean_text(label)])
    return with_current(list(tasks[:limit]))


def _partition(chain: Chain, board: Board, named: str | None) -> str:
    return partitions.partition_of(chain, board) if named is None else named


def rows_in_session(board: Board, session: Session | UUID) -> list[Task]:
    """The tasks whose run link names the session, each with its whole follow-up chain, started or not; of a board with
    partitions too, since a session runs what is of one.

    In board order (`created_at`, then key), each once; an empty list for a session that ran nothing.
    """
    session_id = session.pk if isinstance(session, Session) else session
    here = Task.objects.filter(board=board)
    ran = here.filter(attempt_rows__session=session_id, run__session_id=str(session_id))
    roots = {root or key for key, root in ran.values_list("pk", "follow_up_of")}
    chains = Task.objects.filter(Q(pk__in=roots) | Q(follow_up_of__in=roots))
    return with_current(list(chains.order_by("created_at", "pk")))


def with_current(tasks: list[Task]) -> list[Task]:
    """Reads of a root carry the latest completed follow-up of its chain (spec: 01 section 3)."""
    found = current_of([task for task in tasks if task.attempts and task.follow_up_of_id is None])
    for task in tasks:
        task.current = found.get(task.pk)
    return tasks

"""Partitions: which rows of a partitioned board a caller has to do with (spec: 01, 03 section 1).

A partition's key is computed from what the server put into the chain, never from a caller's value. Our own services
serve every row within its own partition, and so does an operator who acts on a row; for everybody else a row of
another partition does not exist.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

from boards import errors
from boards.actors import Chain
from boards.models import Board, Role, Session, Task
from boards.stored_text import clean_text

_BY: Final = Board.PartitionBy
_DEEPEST: Final = 50  # sessions above one another


def partition_of(chain: Chain, board: Board) -> str:
    """The key of the caller's partition; "" on a board that has none. Raises NoPartition."""
    if board.partition_by == _BY.NONE:
        return ""
    if board.partition_by == _BY.SESSION and chain.session_id is not None:
        return str(chain.session_id)
    user_id = _user_of(chain) if board.partition_by == _BY.USER else None
    if user_id is None:
        raise errors.NoPartition(f"{chain.name} has no partition of its own on {board.name}, so this is not possible.")
    return str(user_id)


def own_partitions(chain: Chain, board: Board) -> set[str]:
    """Every partition of the board that is the caller's own; of a person by session, those of all their sessions."""
    if board.partition_by == _BY.NONE:
        return {""}
    if board.partition_by == _BY.USER:
        user_id = _user_of(chain)
        return set() if user_id is None else {str(user_id)}
    own = {str(chain.session_id)} if chain.session_id else set()
    if chain.acting.kind == "person":
        own |= {str(key) for key in Session.objects.filter(user=chain.user_id).values_list("pk", flat=True)}
    return own


def reaches(chain: Chain, task: Task) -> bool:
    """Whether the row exists for this caller. `task.board` is loaded. A key has its own partition alone."""
    if not chain.sees_board(task.board_id):
        return False
    if task.board.partition_by == _BY.NONE or chain.acting.kind == "service":
        return True
    if chain.acting.role == Role.OPERATOR and chain.key is None:
        return True
    return task.partition in own_partitions(chain, task.board)


def require_own(chain: Chain, task: Task) -> None:
    """TaskNotFound for a row that does not exist for this caller."""
    if not reaches(chain, task):
        raise errors.TaskNotFound


def find_task_partitions(chain: Chain, board: Board, task_id: str) -> list[str]:
    """The keys of the caller's own partitions that hold the id, zero or more; an index scan."""
    if board.space_id != chain.space_id or not chain.sees_board(board.pk):
        return []
    own = own_partitions(chain, board)
    rows = Task.objects.filter(board=board, partition__in=own, public_id=clean_text(task_id))
    return sorted(rows.values_list("partition", flat=True))


def keeps_kind(board: Board) -> tuple[str, list[Any]]:
    """The statement that keeps `partition_by` as the filing saw it until its rows are there; it answers no row where it
    was changed before that, which `require_kept` refuses.

    The weakest lock, which the insert's foreign key takes too, but only when the transaction ends.
    """
    return _KEEP_KIND, [board.pk, board.partition_by]


_KEEP_KIND: Final = "select 1 from boards_board where id = %s and partition_by = %s for key share"


def require_kept(found: Sequence[object]) -> None:
    if not found:
        raise errors.TaskWriteDeclined("The board's settings were changed just now. File it again.")


def require_unfiled(board_id: int) -> None:
    """PartitionFixed where a task was filed, before `partition_by` is changed in the caller's transaction.

    The lock lets no filing by: one in flight is waited for, a later one waits and then sees the change.
    """
    Board.objects.select_for_update().get(pk=board_id)
    if Task.objects.filter(board=board_id).exists():
        raise errors.PartitionFixed


def _user_of(chain: Chain) -> int | None:
    """The person behind the chain: named in it, else who the nearest session above its own belongs to."""
    if chain.user_id is not None:
        return chain.user_id
    session_id: uuid.UUID | None = chain.session_id
    for _ in range(_DEEPEST):
        if session_id is None:
            return None
        found = Session.objects.filter(pk=session_id).values_list("user_id", "parent_id").first()
        if found is None or found[0] is not None:
            return found[0] if found else None
        session_id = found[1]
    return None

"""Filing one ordinary task in one call of a database function, whose plans the server keeps (spec: 10, `bench file`).

It decides nothing that `filing` does not: the function files where nothing speaks against it, and otherwise writes
nothing at all, so that the long way says why. Its text is in the migration that made it; a change of it is a new
function beside the old one, which processes of the version before still call.
"""

from __future__ import annotations

from typing import Final

from django.db import connection

from boards import live_notices
from boards.actors import Chain
from boards.locks import Rank, engine_statement, taking
from boards.models import Board, Task
from boards.states import Status
from boards.stored_text import clean_json_text
from boards.tasks import plain_rows
from boards.tasks.types import Filing

GOALS: Final = 0x0B0B  # the first number of the advisory locks on goals
_ANYBODY: Final = frozenset({"none", "person"})  # checkers that are on no roster

# In the order of the function's parameters.
_TASK: Final = {
    "incarnation_id": "uuid",
    "goal": "text",
    "goal_hash": "text",
    "title": "text",
    "context": "text",
    "input": "jsonb",
    "labels": "text[]",
    "metadata": "jsonb",
    "priority": "int",
    "due_at": "timestamptz",
    "assignee": "text",
    "checker": "text",
    "max_attempts": "int",
    "status": "text",
    "filer_id": "uuid",
    "created_by_id": "bigint",
    "filed_by": "text",
}
_CALL: Final = f"""
    select * from boards_file_task_1(
        %s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb,
        {", ".join(f"%s::{kind}" for kind in _TASK.values())})"""


def is_ordinary(filing: Filing) -> bool:
    """Whether the function can file it: it starts by itself, under an id of the board's, and waits for no other."""
    return not (
        filing.id
        or filing.deps
        or filing.follow_up_of
        or filing.holds
        or (filing.checker != "none" and filing.checker == filing.assignee)
    )


@engine_statement
def file(chain: Chain, board: Board, task: Task, twins: str) -> bool:
    """Store the fresh task and its event; the row in memory gets its key, id and times. False: nothing was written.

    `twins`: the place and the goal's hash, of which one task may be open for an assignee; "" where any may.
    """
    most_pending = None if task.status == Status.HELD else board.max_enqueued_tasks
    if most_pending == 0:  # there is no last one of none for the function to look for
        return False
    taking(Rank.BOARD_ADVISORY)
    taking(Rank.BOARD_COUNTER)
    held = task.__dict__
    params = [
        board.pk,
        task.partition,
        board.partition_by,
        board.max_total_tasks,
        most_pending,
        "" if task.checker in _ANYBODY else task.checker,
        GOALS,
        twins,
        clean_json_text(chain.wire()),
        *[plain_rows.param(held[name], kind) for name, kind in _TASK.items()],
    ]
    with connection.cursor() as cursor:
        plain_rows.quick_times(cursor)
        cursor.execute(_CALL, params)
        key, name, created_at, updated_at = cursor.fetchone()
    if key is None:
        return False
    task.key, task.public_id, task.created_at, task.updated_at = key, name, created_at, updated_at
    live_notices.changed(board.pk, task_key=key)
    return True

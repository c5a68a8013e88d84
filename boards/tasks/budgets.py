"""The counter rows behind a board's limits: filing caps and the retry budget (spec: 01 sections 2-3, 03 section 1).

Check and grant are one guarded update, so two at the edge give exactly one. They come before task rows are locked.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

from boards.locks import Rank, taking
from boards.models import Board

_TODAY = "(statement_timestamp() at time zone 'utc')::date"


def take_ids(board: Board, partition: str, count: int) -> tuple[str, list[Any]]:
    """The statement that counts `count` filings; it answers the lifetime number before them, or no row where
    `max_total_tasks` refuses.

    Locks the counter row until the transaction ends.
    """
    taking(Rank.BOARD_COUNTER)
    most = board.max_total_tasks
    return _TAKE_IDS, [board.pk, partition, count, most, count, most, most, most, count]


_TAKE_IDS = """
    insert into boards_boardcounter as c (board_id, partition, filed_total, retries_granted)
    select %s, %s, %s, 0 where %s::int is null or %s <= %s::int
    on conflict (board_id, partition) do update set filed_total = c.filed_total + excluded.filed_total
     where %s::int is null or c.filed_total + excluded.filed_total <= %s::int
    returning filed_total - %s"""


def give_back_ids(board: Board, partition: str, count: int) -> None:
    """Undo a count whose filing was refused; the row is locked by this transaction already."""
    with connection.cursor() as cursor:
        cursor.execute(
            "update boards_boardcounter set filed_total = filed_total - %s where board_id = %s and partition = %s",
            [count, board.pk, partition],
        )


def grant_retry(board: Board, partition: str) -> bool:
    """Take one retry from the board's budget; always granted where there is none (per UTC day on `scope: space`)."""
    if board.max_total_retries is None:
        return True
    if board.max_total_retries == 0:
        return False
    taking(Rank.BOARD_COUNTER)
    daily = board.scope == Board.Scope.SPACE
    spent = f"(case when %s and c.retries_day is distinct from {_TODAY} then 0 else c.retries_granted end)"
    with connection.cursor() as cursor:
        cursor.execute(
            f"""insert into boards_boardcounter as c (board_id, partition, filed_total, retries_granted, retries_day)
                values (%s, %s, 0, 1, {_TODAY})
                on conflict (board_id, partition) do update
                  set retries_granted = {spent} + 1, retries_day = {_TODAY}
                  where {spent} < %s
                returning 1""",
            [board.pk, partition, daily, daily, board.max_total_retries],
        )
        return cursor.fetchone() is not None


def take_back_retry(board: Board, partition: str) -> None:
    """Undo a grant whose write then declined; the row is locked by this transaction already."""
    if board.max_total_retries is None:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """update boards_boardcounter set retries_granted = greatest(0, retries_granted - 1)
               where board_id = %s and partition = %s""",
            [board.pk, partition],
        )

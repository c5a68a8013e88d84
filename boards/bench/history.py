"""Fills a board with tasks that ended long ago, by one statement for each table: more than verbs could make in time."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import connection

from boards.models import Board

_TASKS = """
    insert into boards_task
           (board_id, partition, id, incarnation_id, revision, goal, goal_hash, title, context, input, labels,
            metadata, priority, assignee, checker, filer_id, filed_by, stage, status, attempts, failures,
            abandonments, status_note, kept_open_by, unmet_deps, open_holds, grant_no, output,
            output_is_checkpoint, error, feedback, steers, cancelled_via, write_log, write_log_truncated,
            created_at, updated_at, started_at, completed_at)
    select %(board)s, '', 'h' || n, gen_random_uuid(), 4, 'Old task ' || n, md5(n::text), '', '', '{}', '{}',
           '{}', 0, 'agent', 'none', %(session)s, 'bench', '', 'completed', 1, 0,
           0, '', '', 0, 0, 1, '{}', false, '', '', '[]', '', '[]', false,
           moment, moment, moment, moment
      from (select n, now() - interval '30 days' + n * interval '1 millisecond' as moment
              from generate_series(1, %(count)s) as n) as old
"""
_ATTEMPTS = """
    insert into boards_attempt
           (task_id, number, assignee, started_at, ended_at, ending, error, steps, spend, output)
    select pk, 1, assignee, started_at, completed_at, 'completed', '', '{}', '[]', '{}'
      from boards_task where board_id = %(board)s and status = 'completed'
"""
_EVENTS = """
    insert into boards_event
           (space_id, board_id, task_id, kind, chain, cause, from_status, to_status, attempt, data, at)
    select %(space)s, board_id, pk, 'task.completed', %(chain)s::jsonb, '', 'in_progress', 'completed', 1, '{}',
           completed_at
      from boards_task where board_id = %(board)s and status = 'completed'
"""
_CHAIN = '[{"kind": "agent", "name": "agent", "id": "agent"}]'


def fill(board: Board, session_id: uuid.UUID | None, count: int) -> None:
    """`count` completed tasks with an attempt and an event each, and fresh statistics."""
    fill_tasks(board, session_id, count)
    given: dict[str, Any] = {"board": board.pk, "space": board.space_id, "chain": _CHAIN}
    with connection.cursor() as cursor:
        for statement in (_ATTEMPTS, _EVENTS):
            cursor.execute(statement, given)
        cursor.execute("vacuum (analyze) boards_task, boards_attempt, boards_event")


def fill_tasks(board: Board, session_id: uuid.UUID | None, count: int) -> None:
    """The tasks alone."""
    with connection.cursor() as cursor:
        cursor.execute(_TASKS, {"board": board.pk, "session": session_id, "count": count})

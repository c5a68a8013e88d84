"""The references: the same writes as plain SQL on one connection, in the product's own tables."""

from __future__ import annotations

import time
import uuid
from typing import Any

import psycopg

BATCH = 50
CHAIN = '[{"kind": "agent", "name": "agent", "id": "agent"}]'

_CLAIM = """
    update boards_task t set status = 'in_progress', grant_no = grant_no + 1, attempts = attempts + 1,
           lease_until = now() + interval '2 minutes', lease_duration_ms = 120000, updated_at = now(),
           started_at = now(), revision = revision + 1
      from (select pk from boards_task where board_id = %s and assignee = 'agent' and status = 'pending'
               and unmet_deps = 0 and open_holds = 0 order by created_at, pk limit %s for no key update skip locked) n
     where t.pk = n.pk returning t.pk
"""
_OPEN = """
    insert into boards_attempt (task_id, number, assignee, ending, error, steps, spend)
    select unnest(%s::bigint[]), 1, 'agent', '', '', '{}', '[]'
"""
_EVENT = """
    insert into boards_event (space_id, board_id, task_id, kind, chain, cause, from_status, to_status, attempt, data)
    select %s, %s, unnest(%s::bigint[]), %s, %s::jsonb, '', %s, %s, 1, '{}'
"""
_COMPLETE = """
    update boards_task set status = 'completed', completed_at = now(), updated_at = now(), output = '{}',
           lease_until = null, lease_duration_ms = null, revision = revision + 1
     where pk = any(%s) and status = 'in_progress' and grant_no = 1
"""
_CLOSE = """
    update boards_attempt set ended_at = now(), ending = 'completed', output = '{}'
     where task_id = any(%s) and ended_at is null
"""
_FILE = """
    insert into boards_task
           (board_id, partition, id, incarnation_id, revision, goal, goal_hash, title, context, input, labels,
            metadata, priority, assignee, checker, filer_id, created_by_id, filed_by, stage, status, attempts,
            failures, abandonments, status_note, kept_open_by, unmet_deps, open_holds, grant_no,
            output_is_checkpoint, error, feedback, steers, cancelled_via, write_log, write_log_truncated)
    select %s, '', name, gen_random_uuid(), 1, 'Measure ' || name, md5(name), '', '', '{}', '{}',
           '{}', 0, 'agent', 'none', %s, null, 'bench', '', 'pending', 0,
           0, 0, '', '', 0, 0, 0, false, '', '', '[]', '', '[]', false
      from unnest(%s::text[]) as name returning pk
"""


class Plain:
    """One plain connection to a board. Rates are rows a second."""

    def __init__(self, connection: psycopg.Connection[Any], board_id: int, space_id: int) -> None:
        self._sql, self._board, self._space = connection, board_id, space_id
        row = connection.execute("select id from boards_session where space_id = %s limit 1", [space_id]).fetchone()
        assert row is not None
        self._session: uuid.UUID = row[0]

    def drain(self, count: int) -> float:
        """File `count` tasks, then claim and complete them in batches of 50, two commits a batch."""
        self.file([f"p{uuid.uuid4().hex}" for _ in range(count)])
        began = time.perf_counter()
        while keys := self._claim():
            with self._sql.transaction():
                self._sql.execute(_COMPLETE, [keys])
                self._sql.execute(_CLOSE, [keys])
                self._event(keys, "task.completed", "in_progress", "completed")
        return count / (time.perf_counter() - began)

    def file_each(self, count: int) -> float:
        """Task and event, one commit each."""
        began = time.perf_counter()
        for _ in range(count):
            self.file([f"p{uuid.uuid4().hex}"])
        return count / (time.perf_counter() - began)

    def file(self, names: list[str]) -> None:
        with self._sql.transaction():
            keys = [row[0] for row in self._sql.execute(_FILE, [self._board, self._session, names])]
            self._event(keys, "task.filed", "", "pending")

    def notice(self, count: int, listener: psycopg.Connection[Any], idle_s: float) -> list[float]:
        """Milliseconds from NOTIFY to its arrival on the other connection, each after `idle_s` of rest."""
        listener.execute("listen bench")
        found = []
        for _ in range(count):
            time.sleep(idle_s)
            began = time.perf_counter()
            self._sql.execute("select pg_notify('bench', '')")
            next(listener.notifies(timeout=10, stop_after=1))
            found.append((time.perf_counter() - began) * 1000)
        return found

    def _claim(self) -> list[int]:
        with self._sql.transaction():
            keys = [row[0] for row in self._sql.execute(_CLAIM, [self._board, BATCH])]
            if keys:
                self._sql.execute(_OPEN, [keys])
                self._event(keys, "task.claimed", "pending", "in_progress")
        return keys

    def _event(self, keys: list[int], kind: str, was: str, became: str) -> None:
        self._sql.execute(_EVENT, [self._space, self._board, keys, kind, CHAIN, was, became])

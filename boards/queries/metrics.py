"""The figures of the ledger for `/metrics`, as one moment saw them (spec: 09 section 2).

A look is one read-only transaction with one snapshot, a fixed number of queries and a time limit for each; what it
costs follows from what is live and from what happened since the last look, not from what has ended. Labels are slugs,
statuses and kinds: nothing here reads a partition, a title or a name.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction

from boards.queries import sweeper
from boards.queries.log_counts import ENDED, Counts, LogCounts
from boards.states import LIVE, Status
from boards.tasks.follow_ups import NOBODY_OF_ITS_CHAIN_WORKS

LONGEST_MS: Final = 3_000  # of one query
_ONE_MOMENT: Final = f"""
set transaction isolation level repeatable read, read only; set local statement_timeout = {LONGEST_MS}"""

# A ready task waits since its last change: it was filed, released or handed back, or its last dependency ended.
_BOARDS: Final = f"""
select pg_current_snapshot()::text, b.id, s.slug, b.slug, live.counts, stuck.n, live.lapsed, live.ready_s,
       asked.n, asked.oldest_s
  from boards_board b join boards_space s on s.id = b.space_id
 cross join lateral (
   select coalesce(json_object_agg(status, n)::text, '') as counts, coalesce(sum(lapsed), 0)::int as lapsed,
          extract(epoch from statement_timestamp() - min(ready_since))::float8 as ready_s
     from (select t.status, count(*) as n, count(*) filter (where t.lease_until <= statement_timestamp()) as lapsed,
                  min(greatest(t.updated_at, t.not_before)) filter (
                    where t.status = 'pending' and t.unmet_deps = 0 and t.open_holds = 0 and not b.paused
                      and (t.not_before is null or t.not_before <= statement_timestamp())
                      and {NOBODY_OF_ITS_CHAIN_WORKS}) as ready_since
             from boards_task t
            where t.board_id = b.id and t.status in ('pending', 'held', 'in_progress', 'needs_check')
            group by t.status) of_status) live
 cross join lateral (
   select count(*) as n from boards_task t where t.board_id = b.id and t.status = 'errored') stuck
 cross join lateral (
   select count(*) as n, extract(epoch from statement_timestamp() - min(h.asked_at))::float8 as oldest_s
     from boards_hold h where h.board_id = b.id and h.state = 'open') asked
 order by s.slug, b.slug"""
_DEBTS: Final = """
select coalesce(t.board_id, f.board_id), d.kind, d.state, count(*)
  from boards_debt d left join boards_task t on t.pk = d.task_id
  left join boards_flowrun r on r.id = d.run_id left join boards_flow f on f.id = r.flow_id
 group by 1, 2, 3"""


@dataclass(frozen=True, slots=True)
class BoardFigures:
    """One board. Ages are None where there is nothing of the kind."""

    space: str
    board: str
    tasks: dict[str, int]
    lapsed: int
    ready_s: float | None
    asked: int
    asked_s: float | None
    counts: Counts


@dataclass(frozen=True, slots=True)
class Ledger:
    """`debts`: how many by kind and state; of those on the boards that were asked for, where not all were."""

    boards: list[BoardFigures]
    debts: dict[tuple[str, str], int]
    watch: sweeper.Watch
    dropped: int


_log = LogCounts()
_one_look = threading.Lock()


def ledger(board_ids: Collection[int] | None) -> Ledger:
    """The figures now, of these boards or (None) of all. Raises DatabaseError where they cannot be read in time."""
    with _one_look:
        with transaction.atomic():
            _asked(_ONE_MOMENT)
            rows = _asked(_BOARDS)
            debts = _asked(_DEBTS)
            watch = sweeper.watch()
            taken = _log.look(*_seen(rows))
        taken()
        shown = [row[1:] for row in rows if board_ids is None or row[1] in board_ids]
        return Ledger([_figures(*row) for row in shown], _owed(debts, board_ids), watch, _log.dropped)


def _seen(rows: list[tuple[Any, ...]]) -> tuple[str, set[int]]:
    """The snapshot of this moment, and the boards that it shows."""
    return (rows[0][0] if rows else _asked("select pg_current_snapshot()::text")[0][0]), {row[1] for row in rows}


def _figures(board_id: int, space: str, board: str, counts: str, stuck: int, lapsed: int, *ages: Any) -> BoardFigures:
    ready_s, asked, asked_s = ages
    logged = deepcopy(_log.boards[board_id])  # another look may go on counting before this one is told
    live: dict[str, int] = json.loads(counts or "{}")
    tasks: dict[str, int] = {**{status: live.get(status, 0) for status in LIVE}, Status.ERRORED: stuck}
    if _log.knows_ended:
        tasks |= {status: max(0, logged.ended.get(status, 0)) for status in ENDED}
    return BoardFigures(space, board, tasks, lapsed, _age(ready_s), asked, _age(asked_s), logged)


def _age(seconds: float | None) -> float | None:
    return None if seconds is None else max(0.0, seconds)


def _owed(debts: list[tuple[Any, ...]], board_ids: Collection[int] | None) -> dict[tuple[str, str], int]:
    found: Counter[tuple[str, str]] = Counter()
    for board_id, kind, state, count in debts:
        if board_ids is None or board_id in board_ids:
            found[kind, state] += count
    return found


def _asked(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
    return rows

"""Catch-up: what a page missed since the moment its data were read (spec: 07 section 1.4; engineering notes, 3).

A cursor is `epoch:snapshot`. What a snapshot does not show is what came later, so a write that commits late under a
lower id is never missed and nothing comes twice. The epoch names the cluster that the stored transaction ids belong
to; this module keeps its row, and writes nothing else.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from django.db import DatabaseError, connection, transaction
from django.db.models import CharField, Func
from django.db.models.functions import Cast

from boards.models import LogEpoch

log = logging.getLogger(__name__)

LIMIT: Final = 200  # more changed rows of one board than that, and reading the page again is cheaper
LONGEST: Final = 16_000  # a snapshot lists the transactions that were running
# What can neither add nor take away a row of *Needs you*, nor a line of the home page.
QUIET: Final = (
    "task.progressed", "task.run_linked", "task.labels_changed", "task.metadata_changed", "task.steered",
)  # fmt: skip
_EPOCH_LOCK: Final = 0x0B0C
_CURSOR: Final = re.compile(r"([0-9a-f-]{36}):(\d{1,19}):(\d{1,19}):((?:\d{1,19}(?:,\d{1,19})*)?)")

# Cards say what they wait for: what depends on a changed task, or is kept open by it, changed with it and has no event
# of its own.
_MISSED: Final = """
select pg_current_snapshot()::text, coalesce(
  (select json_agg(json_build_array(b.id, e.task_id, e.run_id, e.is_quiet))
   from unnest(%(boards)s::bigint[]) b(id) cross join lateral (
     select distinct x.task_id, x.run_id, e.kind = any(%(quiet)s) is_quiet from boards_event e
     cross join lateral (
       select e.task_id, e.run_id
       union all select d.dependent_id, null from boards_taskdep d where d.dependency_id = e.task_id
       union all select p.pk, null from boards_task f join boards_task p on p.pk = f.filed_by_task_id
                  where f.pk = e.task_id and p.kept_open_by = 'filed') x
     where e.board_id = b.id and e.xid >= pg_snapshot_xmin(%(since)s::pg_snapshot)
       and not pg_visible_in_snapshot(e.xid, %(since)s::pg_snapshot)
     limit %(limit)s) e), '[]')
"""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Too much was missed, or it cannot be told: read the page anew; `cursor` is where to go on from."""

    cursor: str


@dataclass(frozen=True, slots=True)
class Missed:
    """What changed on one board. `too_many`: more than 200 rows, and the ids are only some of them.

    `itself`: the board, not a task or run of it. `quiet`: nothing that could wait on a person.
    """

    task_keys: frozenset[int] = frozenset()
    run_ids: frozenset[int] = frozenset()
    too_many: bool = False
    itself: bool = False
    quiet: bool = True


def cursor() -> str:
    """Take it before the page is read; the page carries it as `data-cursor`."""
    with connection.cursor() as query:
        query.execute("select pg_current_snapshot()::text")
        return f"{epoch()}:{query.fetchone()[0]}"


def snapshot() -> Cast:
    """An annotation for the query that a page reads first; its value makes the page's cursor (`cursor_at`)."""
    return Cast(Func(function="pg_current_snapshot", output_field=CharField()), CharField())


def cursor_at(snapshot_text: str) -> str:
    """The cursor of a statement that was annotated with `snapshot`."""
    return f"{epoch()}:{snapshot_text}"


def changes_since(board_id: int, since: str) -> tuple[frozenset[int], frozenset[int], str] | Refresh:
    """Task keys and run ids of a board that changed since a cursor, and the next cursor."""
    found = changes_of(frozenset({board_id}), since)
    if isinstance(found, Refresh):
        return found
    missed, fresh = found
    one = missed.get(board_id, Missed())
    return Refresh(fresh) if one.too_many else (one.task_keys, one.run_ids, fresh)


def changes_of(board_ids: Iterable[int], since: str) -> tuple[dict[int, Missed], str] | Refresh:
    """What changed on several boards (those without changes are left out), and the next cursor. One statement.

    A cursor that is none of ours, or of another epoch, is a refresh.
    """
    snapshot = snapshot_of(since)
    if snapshot is None:
        return Refresh(cursor())
    with connection.cursor() as query:
        query.execute(_MISSED, {"boards": sorted(board_ids), "since": snapshot, "limit": LIMIT + 1, "quiet": [*QUIET]})
        fresh, rows = query.fetchone()
    if int(snapshot.split(":")[1]) > int(fresh.split(":")[1]):
        return Refresh(f"{epoch()}:{fresh}")  # from the future: the database was set back to an earlier moment
    return _by_board(rows if isinstance(rows, list) else json.loads(rows)), f"{epoch()}:{fresh}"


def _by_board(rows: list[tuple[int, int | None, int | None, bool]]) -> dict[int, Missed]:
    of: dict[int, list[tuple[int | None, int | None, bool]]] = {}
    for board_id, task, run, is_quiet in rows:
        of.setdefault(board_id, []).append((task, run, is_quiet))
    return {
        board_id: Missed(
            frozenset(task for task, _, _ in found if task is not None),
            frozenset(run for _, run, _ in found if run is not None),
            len(found) > LIMIT,
            any(task is None and run is None for task, run, _ in found),
            all(is_quiet for *_, is_quiet in found),
        )
        for board_id, found in of.items()
    }


def snapshot_of(since: str) -> str | None:
    """The snapshot of a cursor of this epoch; None for anything else, which the database need not see."""
    parts = _CURSOR.fullmatch(since) if len(since) <= LONGEST else None
    if parts is None or parts[1] != epoch():
        return None
    least, next_one = int(parts[2]), int(parts[3])
    running = [int(one) for one in parts[4].split(",") if one]
    in_order = running == sorted(set(running)) and all(least <= one < next_one for one in running)
    valid = 0 < least <= next_one < 2**63 and in_order
    return f"{parts[2]}:{parts[3]}:{parts[4]}" if valid else None


_known_epoch: str | None = None


def epoch() -> str:
    """The name of this cluster's log, read once per process; `forget_epoch` makes it read again."""
    global _known_epoch
    if _known_epoch is None:
        _known_epoch = _kept_epoch() or _new_epoch()
    return _known_epoch


def forget_epoch() -> None:
    """After the database was away: it may have come back as another one, restored from a copy."""
    global _known_epoch
    _known_epoch = None


def _kept_epoch() -> str | None:
    kept = LogEpoch.objects.order_by("-pk").first()
    if kept is None or kept.system_identifier != (here := _system_identifier()):
        return None
    return None if not here and _has_future_ids() else str(kept.uuid)


def _new_epoch() -> str:
    """The log came from another cluster, or is new: its transaction ids mean nothing here, so they become 0."""
    with transaction.atomic(), connection.cursor() as query:
        query.execute("select pg_advisory_xact_lock(%s)", [_EPOCH_LOCK])
        if kept := _kept_epoch():
            return kept  # another process was first
        query.execute("update boards_event set xid = '0' where xid <> '0'")
        if query.rowcount:
            log.warning("The event log came from another database: it begins a new epoch")
        return str(LogEpoch.objects.create(system_identifier=_system_identifier()).uuid)


def _system_identifier() -> str:
    """Of the cluster; empty where the role may not ask, and then only ids from the future tell a restored log."""
    try:
        with transaction.atomic():
            return str(_value("select system_identifier from pg_control_system()"))
    except DatabaseError:
        return ""


def _has_future_ids() -> bool:
    return bool(_value("select exists (select from boards_event where xid > pg_snapshot_xmax(pg_current_snapshot()))"))


def _value(sql: str) -> Any:
    with connection.cursor() as query:
        query.execute(sql)
        return query.fetchone()[0]

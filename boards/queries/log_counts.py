"""What only ever grows, counted from the event log: claims, lost leases, and how long things took.

Each look reads the events that came since the last one, by the index of catch-up, so it costs what happened meanwhile
and not what has ever happened; nothing is written, and a claim pays nothing for it. The counts begin with this
process, as counters may: what is told of them are their rates, and these are the same in every process. Whoever looks
has one transaction with one snapshot for all statements, or an event could be counted twice or never.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from django.db import OperationalError, connection, transaction

from boards.measured import Durations
from boards.states import Status

log = logging.getLogger(__name__)

PICKUP, RUN, WAIT = "pickup", "run", "wait"
BOUNDS: Final = {
    PICKUP: (0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0),
    RUN: (0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0),
    WAIT: (1.0, 10.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0, 86_400.0, 604_800.0),
}
ENDED: Final = (Status.COMPLETED, Status.CANCELLED)  # what a board keeps for ever, and has by the million
RECOUNT_S: Final = 3_600.0  # retention removes tasks without an event of theirs

# A first attempt is picked up from the moment on when nothing kept it back any more: the last event of its own before
# the claim, the end of its last dependency, the last answer that settled. What an attempt took counts once it ended.
_SINCE: Final = """
with fresh as materialized (
  select e.id, e.board_id, e.task_id, e.kind, e.cause, e.from_status, e.to_status, e.attempt, e.at, e.data
    from boards_board b cross join lateral (
      select * from boards_event e
       where e.board_id = b.id and e.xid >= pg_snapshot_xmin(%(since)s::pg_snapshot)
         and not pg_visible_in_snapshot(e.xid, %(since)s::pg_snapshot)
         and (e.from_status <> e.to_status or e.cause = 'lost worker' or e.kind = 'hold.answered')) e
), endings as (
  select e.board_id, a.ending, extract(epoch from a.ended_at - a.started_at)::float8 as seconds
    from fresh e join boards_attempt a on a.task_id = e.task_id and a.ended_at is not null
     and a.number = case when e.cause = 'lost worker' then (e.data->>'lost_attempt')::int else e.attempt end
   where e.from_status = 'in_progress' and (e.to_status <> 'in_progress' or e.cause = 'lost worker')
), durations as (
  select e.board_id, 'pickup' as what, extract(epoch from e.at - greatest(
           (select p.at from boards_event p where p.task_id = e.task_id and p.id < e.id order by p.id desc limit 1),
           (select max(d.completed_at) from boards_taskdep x join boards_task d on d.pk = x.dependency_id
             where x.dependent_id = e.task_id),
           (select max(h.settles_at) from boards_hold h where h.task_id = e.task_id and h.settles_at < e.at)
         ))::float8 as seconds
    from fresh e where e.kind = 'task.claimed' and e.attempt = 1 and e.from_status = 'pending'
  union all
  select board_id, 'run', seconds from endings
  union all
  select e.board_id, 'wait', extract(epoch from h.answered_at - h.asked_at)::float8
    from fresh e join boards_hold h on h.id = (e.data->>'hold')::bigint and h.answered_at is not null
   where e.kind = 'hold.answered'
)
select board_id, 'claims', '', 0, count(*), 0 from fresh where kind = 'task.claimed' group by board_id
union all
select board_id, 'lost', ending, 0, count(*), 0
  from endings where ending in ('lost', 'abandoned', 'reclaimed') group by board_id, ending
union all
select board_id, 'ended', status, 0, sum(n), 0
  from (select board_id, to_status as status, 1 as n from fresh
        union all select board_id, from_status, -1 from fresh) moves
 where status in ('completed', 'cancelled') group by board_id, status
union all
select board_id, what, '', bucket, count(*), sum(seconds)
  from (select board_id, what, greatest(seconds, 0) as seconds,
               width_bucket(seconds, case what when 'pickup' then %(pickup)s::float8[] when 'run' then %(run)s::float8[]
                                     else %(wait)s::float8[] end) as bucket
          from durations where seconds is not null) d
 group by board_id, what, bucket"""
_ENDED: Final = """
select b.id, s.status, c.n from boards_board b
 cross join unnest(array['completed', 'cancelled']) s(status)
 cross join lateral (select count(*) as n from boards_task t where t.board_id = b.id and t.status = s.status) c"""


@dataclass
class Counts:
    """Of one board, since this process began; `ended`: how many there are of each such status now."""

    claims: int = 0
    lost: dict[str, int] = field(default_factory=dict)  # by how the attempt ended
    durations: dict[str, Durations] = field(
        default_factory=lambda: {what: Durations(bounds) for what, bounds in BOUNDS.items()}
    )
    ended: dict[str, int] = field(default_factory=dict)


class LogCounts:
    """The counts of this process. One look at a time; the caller sees to that."""

    def __init__(self) -> None:
        self.boards: defaultdict[int, Counts] = defaultdict(Counts)
        self.dropped = 0  # looks that took too long: what happened before them is in no count
        self.knows_ended = False
        self._since: str | None = None
        self._recount_at = float("-inf")

    def look(self, snapshot: str, board_ids: set[int]) -> Callable[[], None]:
        """Read what came since the last look, inside the caller's transaction, whose snapshot is `snapshot`.

        Answers what takes it in: called once everything was read, so that a look that fails counts nothing. A look
        that takes too long is given up, and the next one begins here.
        """
        recounts = time.monotonic() >= self._recount_at
        try:
            with transaction.atomic():
                moved = [] if self._starts_anew(snapshot) else _asked(_SINCE, {"since": self._since} | _PARAMS)
                ended = _asked(_ENDED, {}) if recounts else None
        except OperationalError as error:
            if not _took_too_long(error):
                raise
            return partial(self._give_up, snapshot, RECOUNT_S if recounts else 0.0)
        return partial(self._take, snapshot, board_ids, moved, ended)

    def _starts_anew(self, snapshot: str) -> bool:
        """At the first look, and where the database was set back to an earlier moment."""
        return self._since is None or int(self._since.split(":")[1]) > int(snapshot.split(":")[1])

    def _take(
        self, snapshot: str, board_ids: set[int], moved: list[tuple[Any, ...]], ended: list[tuple[Any, ...]] | None
    ) -> None:
        self._since = snapshot
        for board_id, what, label, bucket, count, seconds in moved:
            counts = self.boards[board_id]
            if what == "claims":
                counts.claims += count
            elif what == "lost":
                counts.lost[label] = counts.lost.get(label, 0) + count
            elif what == "ended":
                counts.ended[label] = counts.ended.get(label, 0) + int(count)
            else:
                counts.durations[what].add(bucket, count, float(seconds))
        if ended is not None:
            self.knows_ended, self._recount_at = True, time.monotonic() + RECOUNT_S
            for board_id, status, count in ended:
                self.boards[board_id].ended[status] = count
        for gone in self.boards.keys() - board_ids:
            del self.boards[gone]

    def _give_up(self, snapshot: str, recount_in_s: float) -> None:
        log.warning("Counting what happened since the last look took too long; the counts go on from here.")
        self._since, self.knows_ended = snapshot, False
        self._recount_at = time.monotonic() + recount_in_s  # later, where the recount may be what took so long
        self.dropped += 1


_PARAMS: Final = {what: list(bounds) for what, bounds in BOUNDS.items()}


def _asked(sql: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _took_too_long(error: OperationalError) -> bool:
    return getattr(error.__cause__, "sqlstate", "") == "57014"

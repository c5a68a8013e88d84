"""Drains and sweepers that live, when the last pass of a sweeper ended, and how late what it sees to is.

One answer for `/readyz`, `manage.py doctor` and the metrics (spec: 07 section 4). Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import connection

from boards import flows
from boards.models import Process

SILENT_AFTER: Final = timedelta(seconds=30)  # a living drain or sweeper beats several times in that span

_PROCESSES: Final = """
select p.kind, count(*) filter (where lives), count(*) filter (where lives and p.listening),
       extract(epoch from statement_timestamp() - max(p.swept_at))::float8
  from boards_process p
 cross join lateral (
   select p.stopped_at is null and p.beat_at > statement_timestamp() - make_interval(secs => %s) as lives) l
 group by p.kind"""

# What a sweeper does as soon as it is due, as its parts look for it: `paying.due_ids`, `people.expire_due`,
# `flows.start_due`. A lapsed lease is none of it, since the next claim takes that.
_LATE: Final = """
select extract(epoch from statement_timestamp() - least(
         (select min(due_at) from boards_debt
           where state = 'owed' and payer = 'any' and after_id is null and due_at <= statement_timestamp()),
         (select min(h.due_at) from boards_hold h left join boards_task t on t.pk = h.task_id
           where h.state = 'open' and h.due_at <= statement_timestamp() and t.withdrawn is null
             and not (h.kind in ('question', 'confirm') and h.default = '')),
         (select min(next_at) from boards_schedule where enabled and next_at <= statement_timestamp()),
         %s::timestamptz))::float8"""


@dataclass(frozen=True, slots=True)
class Living:
    """Processes of one kind that live, and how many of them hear change notices."""

    alive: int = 0
    listening: int = 0


@dataclass(frozen=True, slots=True)
class Watch:
    """`pass_age_s`: since the last pass ended, None where none is known of. `lag_s`: how long the oldest thing that is
    due has waited, 0 where nothing waits.
    """

    drains: Living
    sweepers: Living
    pass_age_s: float | None
    lag_s: float


def watch() -> Watch:
    """Four queries."""
    with connection.cursor() as cursor:
        cursor.execute(_PROCESSES, [SILENT_AFTER.total_seconds()])
        rows = {kind: (Living(alive, listening), age) for kind, alive, listening, age in cursor.fetchall()}
        late_step = flows.late_since()
        cursor.execute(_LATE, [late_step])
        (lag,) = cursor.fetchone()
    sweepers, age = rows.get(Process.Kind.SWEEPER, (Living(), None))
    drains, _age = rows.get(Process.Kind.DRAIN, (Living(), None))
    return Watch(drains, sweepers, None if age is None else max(0.0, age), max(0.0, lag or 0.0))


def words(found: Watch) -> str:
    """When the last pass was and how late it is, for people."""
    if found.pass_age_s is None:
        passed = "No pass has ended yet"
    else:
        passed = f"The last pass ended {span(found.pass_age_s)} ago"
    waits = f"what is due has waited up to {span(found.lag_s)}" if found.lag_s >= 1 else "nothing waits for the next"
    return f"{passed}; {waits}."


def span(seconds: float) -> str:
    """A time that has passed, in its largest unit; a health check is read in a hurry."""
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {name}"
    return f"{int(seconds)} s"

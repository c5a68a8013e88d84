"""Recounts a sample of counters: what a row says of itself against what the other tables say (spec: 07 section 4).

A difference is an error of ours. It is logged, and left for operators to see; it is never repaired here, since a
silent repair would hide the write that went wrong.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from django.db import connection

from boards.debts import owing
from boards.debts.kinds import Undeliverable, pays
from boards.locks import engine_transaction
from boards.models import Debt, Task

log = logging.getLogger(__name__)

KIND: Final = "recount"
SAMPLE: Final = 500  # rows in one look
COUNTED: Final = 20_000  # a counter of more filings than this costs too much to count again

# One statement sees one snapshot, in which every write's row and counter are there together or not at all.
_TASKS: Final = """
select t.pk, t.unmet_deps, unmet.n, t.open_holds, asked.n
  from (select pk, unmet_deps, open_holds from boards_task where pk > %s order by pk limit %s) t
  cross join lateral (select count(*) n from boards_taskdep e join boards_task b on b.pk = e.dependency_id
                       where e.dependent_id = t.pk and b.status <> 'completed') unmet
  cross join lateral (select count(*) n from boards_hold h where h.task_id = t.pk and h.state = 'open') asked
"""
_FILED: Final = """
select c.filed_total, there.n, there.latest
  from (select * from boards_boardcounter where filed_total <= %s and (board_id, partition) =
          (select board_id, partition from boards_task where pk = %s)) c
  cross join lateral (select count(*) n, max(pk) latest from boards_task t
                       where t.board_id = c.board_id and t.partition = c.partition) there
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """`counter` of the task `key` says `stored`; the rows that it counts say `counted`."""

    key: int
    counter: str
    stored: int
    counted: int

    @property
    def sentence(self) -> str:
        return f"{self.counter} is {self.stored}, and a recount says {self.counted}. Nothing was changed."


@dataclass(frozen=True, slots=True)
class Recount:
    """`next_key`: where to look on, or None when the last row was looked at."""

    differences: list[Difference]
    next_key: int | None


def recount(*, after_key: int = 0, limit: int = SAMPLE) -> Recount:
    """Look at the counters of the next rows, and at the filings of the last one's board; report what differs."""
    with connection.cursor() as cursor:
        cursor.execute(_TASKS, [after_key, limit])
        rows = cursor.fetchall()
    found: list[Difference] = []
    for key, unmet, unmet_counted, asked, asked_counted in rows:
        found += _differs(key, "unmet_deps", unmet, unmet_counted) + _differs(key, "open_holds", asked, asked_counted)
    if rows:
        found += _filings(rows[-1][0])
    for difference in found:
        _report(difference)
    return Recount(found, rows[-1][0] if len(rows) == limit else None)


def _differs(key: int, counter: str, stored: int, counted: int) -> list[Difference]:
    return [] if stored == counted else [Difference(key, counter, stored, counted)]


def _filings(key: int) -> list[Difference]:
    """A board never holds more tasks than it counted filings; fewer it may, since retention gives none back."""
    with connection.cursor() as cursor:
        cursor.execute(_FILED, [COUNTED, key])
        row = cursor.fetchone()
    return [Difference(row[2], "filed_total of the board", row[0], row[1])] if row and row[1] > row[0] else []


@engine_transaction
def _report(found: Difference) -> None:
    """Once for a task and counter, until an operator has marked it as seen."""
    unique_key = f"{KIND}:{found.key}:{found.counter}"
    task = Task.objects.filter(pk=found.key).first()
    if task is None or Debt.objects.filter(unique_key=unique_key).exists():
        return
    log.error("A counter of task %s of board %s differs: %s", task.public_id, task.board_id, found.sentence)
    data = {"counter": found.counter, "stored": found.stored, "counted": found.counted}
    owing.note_undeliverable(KIND, unique_key, task, found.sentence, data)


@pays(KIND)
def seen_only(debt: Debt) -> bool:
    raise Undeliverable("A counter is not repaired by itself. Mark it as seen, and report it as a fault.")

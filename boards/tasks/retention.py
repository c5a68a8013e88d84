"""Retention: ended tasks go when all that hangs together with them ended long ago (spec: 07 section 4).

A component is what dependencies, follow-ups, filed tasks and the runs of flows tie together; it goes whole or stays
whole, in one transaction. Events stay: they name the task by its key, and one event of the board keeps the ids that
the keys stood for. Runs stay too, without their tasks. This module decides nothing about live tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from boards import actors
from boards.event_log import Entry, record_all
from boards.locks import Rank, engine_transaction, sorted_keys, taking
from boards.models import Debt, FlowRun, Task
from boards.states import TERMINAL, RunStatus

LOOKED_AT: Final = 1_000  # rows, in the order of their keys, before it is asked again
CHUNK: Final = 500  # rows a statement
NAMED: Final = 200  # tasks that one event names

# What belongs to a task and goes with it, before the task itself; `test_retention` compares this with the models.
BELONGINGS: Final = (
    ("boards_agentcheck", "task_id"),
    ("boards_agentcheck", "check_task_id"),
    ("boards_transcriptitem", "task_id"),
    ("boards_hold", "task_id"),
    ("boards_attempt", "task_id"),
    ("boards_taskdep", "dependent_id"),
    ("boards_taskdep", "dependency_id"),
)
# What outlives the task and only names it.
EMPTIED: Final = ("boards_visit", "boards_branch", "boards_delivery")
# What hangs on its questions: votes go with them, and what members were told of them only names them.
_QUESTIONS: Final = "(select id from boards_hold where task_id = any(%s))"
_OF_QUESTIONS: Final = (
    f"delete from boards_vote where hold_id in {_QUESTIONS}",
    f"update boards_delivery set hold_id = null where hold_id in {_QUESTIONS}",
)

_COMPONENT: Final = """
with recursive member(pk) as (
  select %s::bigint
  union
  select x.pk from member m cross join lateral (
    select dependency_id as pk from boards_taskdep where dependent_id = m.pk
    union all select dependent_id from boards_taskdep where dependency_id = m.pk
    union all select follow_up_of_id from boards_task where pk = m.pk and follow_up_of_id is not null
    union all select pk from boards_task where follow_up_of_id = m.pk
    union all select filed_by_task_id from boards_task where pk = m.pk and filed_by_task_id is not null
    union all select pk from boards_task where filed_by_task_id = m.pk
    union all select check_task_id from boards_agentcheck where task_id = m.pk and check_task_id is not null
    union all select task_id from boards_agentcheck where check_task_id = m.pk
    union all select other.pk from boards_task t
                join boards_visit v on v.id = t.visit_id
                join boards_flowrun r on r.id = v.run_id
                left join boards_visit caller on caller.id = r.called_by_id
                join boards_visit w on w.run_id in (r.id, caller.run_id)
                                    or w.run_id in (select c.id from boards_flowrun c join boards_visit cv
                                                        on cv.id = c.called_by_id where cv.run_id = r.id)
                join boards_task other on other.visit_id = w.id
               where t.pk = m.pk and t.visit_id is not null
  ) x)
select pk from member order by pk
"""

_SESSIONS: Final = """
delete from boards_session s
 where s.id = any(%s) and s.kind = 'task_run'
   and not exists (select from boards_attempt where session_id = s.id)
   and not exists (select from boards_task where filer_id = s.id)
   and not exists (select from boards_hold where asker_session_id = s.id)
   and not exists (select from boards_session where parent_id = s.id)
   and not exists (select from boards_transcriptitem where session_id = s.id)
   and not exists (select from boards_flowrun where session_id = s.id)
"""


@dataclass(frozen=True, slots=True)
class Removed:
    """`tasks` went; `next_key` is where to look on, or None when every row was looked at."""

    tasks: int
    next_key: int | None


def remove_ended(days: int, *, limit: int, after_key: int = 0, dry: bool = False) -> Removed:
    """Remove components that ended more than `days` days ago, until `limit` tasks went or LOOKED_AT rows were seen.

    `dry`: nothing goes, and what would is counted.
    """
    old = Task.objects.filter(pk__gt=after_key, created_at__lt=Now() - timedelta(days=days)).order_by("pk")
    rows = list(old.values_list("pk", "completed_at")[:LOOKED_AT])
    seen: set[int] = set()
    removed = 0
    for key, completed_at in rows:
        if removed >= limit:
            return Removed(removed, key - 1)
        if completed_at is not None and key not in seen:
            component = component_of(key)
            seen.update(component)
            if component[0] == key:  # else it was looked at before, with its oldest
                removed += _would_go(component, days) if dry else _remove(component, days)
    return Removed(removed, rows[-1][0] if len(rows) == LOOKED_AT else None)


def component_of(key: int) -> list[int]:
    """The keys of all tasks that hang together with this one, itself among them, in the order of locking."""
    with connection.cursor() as cursor:
        cursor.execute(_COMPONENT, [key])
        return [row[0] for row in cursor.fetchall()]


def drop_events(days: int, *, limit: int) -> int:
    """Delete events older than `days` days whose task and run are gone or never were; answers how many.

    Only the retention command does this: the log is the audit.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """delete from boards_event where id in (
                 select e.id from boards_event e
                  where e.at < statement_timestamp() - make_interval(days => %s)
                    and not exists (select from boards_task t where t.pk = e.task_id)
                    and not exists (select from boards_flowrun r where r.id = e.run_id)
                  order by e.id limit %s)""",
            [days, limit],
        )
        return cursor.rowcount


@engine_transaction
def _remove(component: Sequence[int], days: int) -> int:
    """Remove it whole where all of it may go; looks again under the locks, since a retry may have been first."""
    if not _may_go(component, days):
        return 0
    taking(Rank.FLOW_RUN)
    runs = _runs(component).values("pk")
    list(FlowRun.objects.select_for_update().filter(pk__in=runs).order_by("pk").values_list("pk"))
    taking(Rank.TASK)
    with connection.cursor() as cursor:
        cursor.execute("select 1 from boards_task where pk = any(%s) order by pk for update", [sorted_keys(component)])
    if component_of(component[0]) != sorted_keys(component) or not _may_go(component, days):
        return 0
    record_all(_told(component))
    _delete(component)
    return len(component)


def _would_go(component: Sequence[int], days: int) -> int:
    return len(component) if _may_go(component, days) else 0


def _may_go(component: Sequence[int], days: int) -> bool:
    long_ago = Now() - timedelta(days=days)
    tasks = Task.objects.filter(pk__in=component)
    done = tasks.filter(status__in=sorted(TERMINAL), completed_at__lt=long_ago).count() == len(component)
    if not done or Debt.objects.filter(task__in=component).exists():
        return False
    runs = FlowRun.objects.filter(pk__in=_runs(component).values("pk"))
    still = runs.filter(status=RunStatus.ACTIVE) | runs.filter(completed_at__gte=long_ago)
    owing = Debt.objects.filter(run__in=runs.values("pk"))
    return not still.exists() and not owing.exists()


def _runs(component: Sequence[int]) -> QuerySet[FlowRun]:
    """The runs that filed these tasks, those that called them, and those that they called."""
    own = FlowRun.objects.filter(visits__filed_tasks__in=component).values("pk")
    return FlowRun.objects.filter(Q(pk__in=own) | Q(visits__child_runs__in=own) | Q(called_by__run__in=own))


def _told(component: Sequence[int]) -> Iterable[Entry]:
    """One event a board and NAMED tasks, with the key, id and label of each: what older events are about."""
    rows = Task.objects.filter(pk__in=component).select_related("board").defer("output", "input", "context")
    by_board: dict[int, list[Task]] = {}
    for task in rows.order_by("pk"):
        by_board.setdefault(task.board_id, []).append(task)
    for board_id, tasks in by_board.items():
        chain = actors.service("sweeper", tasks[0].board.space_id)
        for some in _named(tasks):
            named = [{"key": task.pk, "id": task.public_id, "label": task.label[:100]} for task in some]
            yield Entry("board.tasks_removed", chain, board_id=board_id, cause="retention", data={"tasks": named})


def _named(tasks: Sequence[Task]) -> Iterable[Sequence[Task]]:
    return (tasks[n : n + NAMED] for n in range(0, len(tasks), NAMED))


def _delete(component: Sequence[int]) -> None:
    with connection.cursor() as cursor:
        for n in range(0, len(component), CHUNK):
            keys = list(component[n : n + CHUNK])
            cursor.execute(
                "select distinct session_id from boards_attempt where task_id = any(%s) and session_id is not null",
                [keys],
            )
            sessions = [row[0] for row in cursor.fetchall()]
            for table in EMPTIED:
                cursor.execute(f"update {table} set task_id = null where task_id = any(%s)", [keys])
            for statement in _OF_QUESTIONS:
                cursor.execute(statement, [keys])
            for table, column in BELONGINGS:
                cursor.execute(f"delete from {table} where {column} = any(%s)", [keys])
            cursor.execute(_SESSIONS, [sessions])
        # References among the tasks themselves (follow-ups, filed tasks) are inside the component.
        cursor.execute("delete from boards_task where pk = any(%s)", [list(component)])

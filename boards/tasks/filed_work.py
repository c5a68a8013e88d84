"""Tasks that a task filed in its turn keep it open: which do, and what of it is written (spec: 03 section 4.5, 07.2).

When a worker hands in while such tasks are open, its task stays Working without a lease or a slot, `kept_open_by`
"filed", with what it handed in as its checkpoint. The ending of each filed task leaves the debt `settle_parent`;
`settling_parents` pays it. This module reads and says; `endings` writes.

What counts is stored on the rows. A filed task is of the open attempt when it was filed after that attempt began, so
what an earlier attempt filed holds nothing. It has reached the session when its ending's notice is told, or will never
be: until then its `settle_parent` is chained to the notice. So whatever keeps a task open has a debt to come that looks
again, and none is lost. A filed task that cannot end before its filer does not keep it open: one that depends on it, or
follows it up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from django.db import connection

from boards.debts import owing
from boards.event_log import Entry
from boards.lines import literal
from boards.models import Debt
from boards.states import TERMINAL
from boards.tasks.decisions import FILED

if TYPE_CHECKING:
    from boards.tasks.endings import Ended

KIND: Final = "settle_parent"

_ENDED: Final = ", ".join(f"'{status}'" for status in sorted(TERMINAL))
# Whether the roster entry that a task `p` of a board `b` reaches lets filed work keep it open.
KEPT_BY_ROSTER: Final = """coalesce(
    (select r.filed_work_keeps_open from boards_rosterentry r where r.board_id = b.id and r.name = p.assignee),
    (select r.filed_work_keeps_open from boards_rosterentry r where r.board_id = b.id and r.name = b.default_worker),
    true)"""
# Of the tasks at work those that may be kept open, with the start of their open attempt.
_AT_WORK: Final = f"""
    select p.pk, a.started_at
      from boards_task p
      join boards_board b on b.id = p.board_id
      join boards_attempt a on a.task_id = p.pk and a.ended_at is null
     where p.pk = any(%s::bigint[]) and {KEPT_BY_ROSTER}"""
_OPEN: Final = f"""
    from boards_task c
   where c.filed_by_task_id = p.pk and c.created_at >= p.started_at and c.status not in ({_ENDED})"""
# What nothing keeps from starting but people and free workers: it certainly does not wait for whoever filed it.
FREE: Final = """(c.unmet_deps = 0 and c.follow_up_of_id is null and c.kept_open_by <> 'filed'
                  and (c.attempts = 0 or c.status <> 'pending'))"""
# An ending that its notice has yet to bring to the session.
_UNHEARD: Final = f"""
    exists (select from boards_debt d join boards_task c on c.pk = (d.data->>'child')::bigint
             where d.task_id = p.pk and d.kind = '{KIND}' and d.state = 'owed' and d.after_id is not null
               and c.created_at >= p.started_at)"""
_LOOK: Final = f"""
    with p as ({_AT_WORK})
    select p.pk, exists (select {_OPEN} and {FREE}) or {_UNHEARD}, exists (select {_OPEN} and not {FREE}) from p"""

# All that cannot end before a task does: what depends on it, the rest of its chain, whoever is kept open by those.
_BEHIND: Final = f"""
    with recursive behind(pk) as (
      select %s::bigint
      union
      select x.pk from behind join boards_task n on n.pk = behind.pk cross join lateral (
        select d.dependent_id as pk from boards_taskdep d join boards_task w on w.pk = d.dependent_id
         where d.dependency_id = n.pk and n.status <> 'completed' and w.status in ('pending', 'held')
        union all
        select w.pk from boards_task w
         where n.status = 'in_progress' and w.status in ('pending', 'held')
           and (w.follow_up_of_id = coalesce(n.follow_up_of_id, n.pk) or w.pk = n.follow_up_of_id)
        union all
        select w.pk from boards_task w
         where w.pk = n.filed_by_task_id and w.kept_open_by = 'filed' and n.status not in ({_ENDED})
      ) x
    ), p as ({_AT_WORK})
    select exists (select c.pk {_OPEN} and c.pk not in (select pk from behind)) from p"""


def keeping(keys: Iterable[int]) -> set[int]:
    """Which of these tasks are kept open by what they filed; the caller holds their locks.

    A filing locks its filer's row first, so none can slip in between this look and the write that follows it.
    """
    wanted = list(keys)
    return {key for key, surely, perhaps in _looks(wanted) if surely or (perhaps and _holds(key))} if wanted else set()


def surely_kept(key: int) -> bool:
    """Whether a task is kept open by what will have it looked at again when it ends; no lock is asked for that."""
    return any(surely for _, surely, _ in _looks([key]))


def _looks(keys: Sequence[int]) -> list[tuple[int, bool, bool]]:
    with connection.cursor() as cursor:
        cursor.execute(_LOOK, [literal(keys)])
        return cursor.fetchall()


def _holds(key: int) -> bool:
    """Whether some of what it filed can end before it does, where that takes a walk to tell."""
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND, [key, literal([key])])
        return bool(cursor.fetchone() == (True,))


def kept(output: Any) -> dict[str, Any]:
    """The fields of a task that its filed tasks keep open: no lease, no slot, and what it handed in."""
    return {
        "kept_open_by": FILED,
        "lease_until": None,
        "resume_ready_at": None,  # of one that was answered before its old turn handed in
        "output": output,
        "output_is_checkpoint": True,
    }


def kept_event(one: Ended) -> Entry:
    """The one event of that write: the worker's last report, since which the task waits."""
    row = one.task
    return Entry(
        "task.progressed",
        one.settlement.chain,
        board_id=row.board_id,
        task_key=row.pk,
        run_id=one.run_id,
        from_status=row.status,
        to_status=row.status,
        attempt=row.attempts,
        data={"kept_open_by": FILED},
    )


def owe_looks(ended: Collection[Ended], notices: Mapping[int, Debt | None]) -> None:
    """In the endings' own transaction: somebody is to look at each task that filed one of these, once its notice has
    reached the session. `notices`: by task, where one is owed. Many endings at once leave one look for each filer.
    """
    looked_at: set[int] = set()
    for one in ended:
        parent, notice = one.task.filed_by_task_id, notices.get(one.task.pk)
        if parent is None or one.task.status not in TERMINAL or (notice is None and parent in looked_at):
            continue
        if notice is None:
            looked_at.add(parent)
        key = f"{KIND}:{parent}:{one.task.pk}:{one.task.attempts}:{one.task.revision}"
        owing.owe(KIND, key, task=parent, after=notice, data={"child": one.task.pk})

"""Looks again at a task that is kept open by the tasks it filed, and completes it once none of them does (spec: 03
section 4.5, 07 section 2.1).

The look is the debt `settle_parent` of each filed task's ending. It locks the parent first, so of two that look at the
same moment the second finds what the first has made of it; the ending itself is the ordinary one of a hand-in, with its
checker, its debts and its event, under the worker's own name. The result is what the worker handed in: what it
returned, else its latest report. The board's schema was asked then, and nothing that its worker says later replaces it.
"""

from __future__ import annotations

from typing import Final

from django.db import connection

from boards import actors
from boards.debts.kinds import pays
from boards.each import each_by_itself
from boards.locks import engine_transaction
from boards.models import Attempt, Debt, Task
from boards.states import Status, Verb
from boards.tasks import decisions, filed_work, rows
from boards.tasks.decisions import Options
from boards.tasks.endings import Settlement, settle
from boards.tasks.types import Recorded

# Kept open by nothing that certainly keeps it.
_LEFT: Final = f"""
    select p.pk
      from boards_task p
      join boards_board b on b.id = p.board_id
      join boards_attempt a on a.task_id = p.pk and a.ended_at is null
     where p.kept_open_by = '{decisions.FILED}' and (not {filed_work.KEPT_BY_ROSTER} or not exists (
           select from boards_task c where c.filed_by_task_id = p.pk and c.created_at >= a.started_at
              and c.completed_at is null and {filed_work.FREE}))
     order by p.pk limit %s"""


@pays(filed_work.KIND)
def settle_parent(debt: Debt) -> bool:
    """Paid by one look, whatever it finds: what still keeps the task open leaves a look of its own."""
    if debt.task_id is not None:
        _look(debt.task_id)
    return True


def settle_kept(limit: int = 200) -> int:
    """Look at what is kept open although nothing certainly keeps it; answers how many were completed.

    No ending is lost without this: it is for tasks whose filed ones came to wait for them only afterwards, by an edit
    of dependencies, or for a roster entry that says otherwise by now.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LEFT, [limit])
        keys = [row[0] for row in cursor.fetchall()]
    return each_by_itself(keys, _look)


@engine_transaction
def _look(key: int) -> bool:
    # Most look at a task that has ended, or of which more is open: the ending of that looks again, after this one.
    if not Task.objects.filter(pk=key, status=Status.IN_PROGRESS).exists() or filed_work.surely_kept(key):
        return False
    row = rows.lock_to_end([key]).get(key)
    if row is None or not decisions.waits_for_filed(row) or filed_work.keeping([key]):
        return False
    attempt = Attempt.objects.filter(task=key, ended_at=None).values_list("assignee", "session_id").get()
    who = attempt[0] or row.board.default_worker or "drain"
    chain = actors.agent(who, row.board.space_id, attempt[1])
    handed_in = Settlement(Verb.COMPLETE, chain, key, Options(advisory=True), output=row.output, looked_again=True)
    return settle(handed_in).result is Recorded.RECORDED

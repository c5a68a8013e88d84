"""Puts runs away and takes them out again; an archived run takes no place and is moved by nobody (spec: 05 section 5).

What still works in it is stopped first, with the cause `archive`, which never completes a turn.
"""

from __future__ import annotations

from typing import Final

from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now

from boards import people, tasks
from boards.actors import Chain, service
from boards.each import each_by_itself
from boards.flows import afterwards, runs, wip
from boards.flows.moving import require, say
from boards.locks import engine_transaction
from boards.models import Debt, FlowRun, Hold, Task
from boards.states import TERMINAL, Cause, HoldState, Phase, RunStatus, Verb
from boards.tasks import Options, Settlement

ARCHIVE: Final = Cause.ARCHIVE
HOLD_WORDS: Final = "the run was archived."


def archive(chain: Chain, run: FlowRun) -> FlowRun:
    """Put a run away: its turn is stopped, its place is free. A second time changes nothing."""
    require(chain, run, "flows.archive")
    _archive(chain, run.pk)
    _discard_left_over(chain, run.pk)
    run.refresh_from_db()
    return run


@engine_transaction
def unarchive(chain: Chain, run: FlowRun) -> FlowRun:
    """Take a run out of the archive. Its step may be full by now: then it queues there and enters it anew."""
    require(chain, run, "flows.archive")
    found, _ = runs.lock(run.pk)
    if found.archived_at is not None:
        _take_out(chain, found)
    run.refresh_from_db()
    return run


def archive_due(limit: int) -> int:
    """Put away the runs that have stood for longer than their step says (`auto_archive_after_hours`); answers how many.

    One that works, or waits on a person, is left alone until that is over.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DUE, [limit])
        found = [run_id for (run_id,) in cursor.fetchall()]
    return each_by_itself(found, _archive_idle)


_DUE: Final = """
select r.id from boards_flowstep s join boards_flowrun r on r.version_id = s.version_id and r.step_key = s.key
 where coalesce((s.settings->>'auto_archive_after_hours')::int, 0) > 0 and r.archived_at is null
   and r.stands_since <= statement_timestamp()
                         - make_interval(hours => (s.settings->>'auto_archive_after_hours')::int)
   and not exists (select from boards_hold h join boards_visit v on v.id = h.visit_id
                    where v.run_id = r.id and h.state = 'open')
   and not exists (select from boards_task t join boards_visit v on v.id = t.visit_id
                    where v.run_id = r.id and t.status in ('pending', 'held', 'in_progress', 'needs_check'))
   and not exists (select from boards_flowrun c join boards_visit v on v.id = c.called_by_id
                    where v.run_id = r.id and c.status = 'active')
   and not exists (select from boards_debt d where d.run_id = r.id and d.state = 'owed'
                    and d.kind in ('flow_advance', 'goal_judge'))
 order by r.stands_since limit %s
"""


@engine_transaction
def _archive_idle(run_id: int) -> bool:
    """As `archive`, but only where still nothing works or asks once the run is locked."""
    run, _ = runs.lock(run_id)
    if run.archived_at is not None or _open_tasks(run) or _asking_visits(run.pk) or _goes_on(run):
        return False
    _put_away(service("flows", run.flow.space_id), run, "its step says so")
    return True


@engine_transaction
def _archive(chain: Chain, run_id: int) -> None:
    run, _ = runs.lock(run_id)
    if run.archived_at is not None:
        return
    words = f"{chain.name} archived the run."
    if keys := _open_tasks(run):
        tasks.settle_many([_settlement(runs.flows_for(chain), key, words) for key in keys])
        say(run, words)
    elif run.current_visit is not None:
        people.discard_visit_holds(chain, run.current_visit.pk, HOLD_WORDS)
    if _called_runs(run).exists():
        afterwards.later("child_runs_cancel", f"child_runs_cancel:{run.pk}:{run.revision}", run)
    _put_away(chain, run)


def _put_away(chain: Chain, run: FlowRun, why: str = "") -> None:
    runs.write(run, archived_at=Now())
    runs.note(run, chain, "run.archived", visit=run.current_visit, cause=ARCHIVE, **({"why": why} if why else {}))
    wip.owe_left(run, run.step_key)


def _take_out(chain: Chain, run: FlowRun) -> None:
    limits = wip.newest_limits(run.flow_id)
    keeps_a_place = run.status in wip.TAKES_A_PLACE and bool(run.step_key)
    has_place = not keeps_a_place or wip.has_place(run.flow_id, limits, run.step_key)
    key, visit = run.step_key, run.current_visit
    runs.write(run, archived_at=None, stands_since=Now())
    runs.note(run, chain, "run.unarchived", visit=visit)
    if not has_place:
        runs.reopen(run, chain)
        if visit is not None and visit.left_at is None:
            runs.write_visit(visit, phase=Phase.LEFT, left_at=Now())
        wip.queue(run, key, chain)
    wip.owe_waits(run, limits)


def _goes_on(run: FlowRun) -> bool:
    """Whether a run that it called works, or something is about to move it."""
    owed = Debt.objects.filter(run=run, state=Debt.State.OWED, kind__in=["flow_advance", "goal_judge"])
    return _called_runs(run).exists() or owed.exists()


def _called_runs(run: FlowRun) -> QuerySet[FlowRun]:
    return FlowRun.objects.filter(called_by__run=run, status=RunStatus.ACTIVE)


def _open_tasks(run: FlowRun) -> list[int]:
    live = Task.objects.filter(visit__run=run).exclude(status__in=sorted(TERMINAL))
    return list(live.order_by("pk").values_list("pk", flat=True))


def _settlement(chain: Chain, key: int, words: str) -> Settlement:
    options = Options(advisory=True)
    return Settlement(Verb.CANCEL, chain, key, options, text=words, via="flow", cause=ARCHIVE, cancel_filed=True)


@engine_transaction
def _discard_left_over(chain: Chain, run_id: int) -> None:
    """Questions beside a task that was cancelled: tasks are locked before holds, so these take a turn of their own."""
    visits = _asking_visits(run_id)
    if visits:
        runs.lock(run_id)
    for key in visits:
        people.discard_visit_holds(chain, key, HOLD_WORDS)


def _asking_visits(run_id: int) -> list[int]:
    asks = Hold.objects.filter(visit__run=run_id, state=HoldState.OPEN).values_list("visit", flat=True)
    return sorted({key for key in asks if key is not None})

"""What happens when the due time of a step has passed, and how a person moves it (spec: 05 section 4).

The sweeper calls `withdraw_due`; the write is the Flows service's alone, under the run's lock and with visit and due
time read again. What follows are debts; the last of them makes the step fail, through the one `advance`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from django.db import connection
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from boards import actors, policy, tasks
from boards.actors import Chain
from boards.debts.kinds import pays
from boards.each import each_by_itself
from boards.errors import InvalidInput, NotFound
from boards.event_log import Entry, record
from boards.flows import due_times, runs
from boards.flows.advance import Trigger, advance
from boards.flows.moving import say
from boards.flows.refusals import IllegalRunMove, RunMovedOn
from boards.flows.steps.simple import due_waits
from boards.locks import Rank, engine_transaction, taking
from boards.models import Branch, Debt, FlowRun, Hold, Task, Visit
from boards.states import LIVE, HoldState, Phase, RunStatus, Status
from boards.tasks import Recorded, cleaning

_OPEN: Final = sorted(LIVE)


def withdraw_due(limit: int = 200) -> int:
    """Withdraw the tasks of every stay whose due time has passed; answers how many. Two sweepers withdraw each once.

    One that cannot be withdrawn keeps no other from it: what it raises is raised once all the others are done.
    """
    return each_by_itself(_late(limit), lambda found: _withdraw(*found))


def _late(limit: int) -> list[tuple[int, int]]:
    """(visit, run) of the stays with something open that is past its due time, the earliest first."""
    return list(dict.fromkeys((visit, run) for _, visit, run in _late_times(limit)))[:limit]


def late_since() -> datetime | None:
    """The earliest due time that has passed and that no sweeper has seen to, of tasks and of steps that wait."""
    times = [due_at for due_at, *_ in _late_times(1)] + [due_at for _, _, due_at, _ in due_waits(1)]
    return min(times, default=None)


def _late_times(limit: int) -> list[tuple[datetime, int, int]]:
    """(due time, visit, run) of what is open past its due time, the earliest first; a stay may be there twice."""
    works = Branch.objects.filter(visit=OuterRef("pk"), ended_at=None, task__status__in=_OPEN)
    at_work = _own_task() | Exists(works.exclude(role=Branch.Role.FAILURE))
    stays = Visit.objects.filter(at_work, due_at__lte=Now(), left_at=None).order_by("due_at", "pk")
    inner = Branch.objects.filter(due_at__lte=Now(), ended_at=None, task__status__in=_OPEN, visit__left_at=None)
    late = list(stays.values_list("due_at", "pk", "run")[:limit])
    late += inner.order_by("due_at", "pk").values_list("due_at", "visit", "visit__run")[:limit]
    return sorted((due_at, visit, run) for due_at, visit, run in late if due_at is not None)


def _own_task() -> Q:
    """Its task is open; or failed, and the step has not failed with it yet."""
    failing = Q(task__status=Status.ERRORED, run__status=RunStatus.ACTIVE, error="") & ~Q(phase=Phase.FAILURE)
    return Q(task__status__in=_OPEN) | failing


@engine_transaction
def _withdraw(visit_id: int, run_id: int) -> int:
    """Read visit and due time again under the run's lock, then end what is late in one write."""
    try:
        run, _ = runs.lock(run_id)
    except NotFound:
        return 0
    due = _due_tasks(run, visit_id)
    if not due:
        return 0
    chain = actors.service("sweeper", run.flow.space_id).then(runs.FLOWS)
    outcomes = tasks.withdraw_many(chain, due, if_allowed=True)
    return sum(outcome.result is Recorded.RECORDED for outcome in outcomes)


def _due_tasks(run: FlowRun, visit_id: int) -> dict[int, datetime]:
    """Key -> due time of the stay's works that are late now, by the database's clock."""
    visit = Visit.objects.filter(pk=visit_id, left_at=None).annotate(db_now=Now()).first()
    if visit is None:
        return {}
    works = {work.task_id: work for work in Branch.objects.filter(visit=visit, ended_at=None, task__isnull=False)}
    found = Task.objects.filter(pk__in=[key for key in (visit.task_id, *works) if key is not None])
    due = {task.pk: due_times.due_of(visit, works.get(task.pk)) for task in found if _may_end(run, visit, task)}
    return {key: at for key, at in due.items() if at is not None and at <= visit.db_now}


def _may_end(run: FlowRun, visit: Visit, task: Task) -> bool:
    if task.status == Status.ERRORED:
        return run.status == RunStatus.ACTIVE and visit.phase != Phase.FAILURE and not visit.error
    return not task.is_ended


@pays("flow_failure_steps")
def pay_flow_failure_steps(debt: Debt) -> bool:
    """The last debt of a withdraw: the step fails with `timeout`. Its unique key is the operation id."""
    told = dict(debt.data)
    visit = Visit.objects.filter(pk=told.pop("visit")).select_related("run__flow").first()
    if visit is None:  # the run was deleted meanwhile
        return True
    chain = actors.service("flows", visit.run.flow.space_id)
    facts = {**told, "debt": debt.pk}
    advance(
        visit.run_id,
        visit.pk,
        Trigger.TIMEOUT,
        cause=tasks.WITHDRAW,
        operation_id=debt.unique_key,
        chain=chain,
        **facts,
    )
    return True


def move_due_time(chain: Chain, run: FlowRun, due_at: datetime, reason: str, *, visit_id: int | None = None) -> FlowRun:
    """A person moves the due time of the current stay, with a reason; that of its question moves with it.

    Raises InvalidInput for a time that is no later than now or a blank reason, IllegalRunMove where the stay has no
    due time or it has passed, RunMovedOn where `visit_id` is no longer the current one.
    """
    if run.flow.space_id != chain.space_id:
        raise NotFound("There is no such run.")
    policy.require(chain, "flows.move", run.flow.space_id)
    words = cleaning.required_text(reason, "reason", cleaning.MAX_REASON).strip()
    moment = cleaning.checked_moment(due_at, "due_at")
    if moment is None:
        raise InvalidInput("Say until when: due_at must be a time with its offset.", field="due_at")
    _move_due_time(chain, run.pk, moment, words, visit_id)
    run.refresh_from_db()
    return run


@engine_transaction
def _move_due_time(chain: Chain, run_id: int, due_at: datetime, reason: str, visit_id: int | None) -> None:
    run, flow = runs.lock(run_id)
    visit = run.current_visit
    if visit is None or (visit_id is not None and visit.pk != visit_id):
        raise RunMovedOn
    now, was = _clock(), visit.due_at
    _refuse_move(run, visit, now)
    if due_at <= now:
        raise InvalidInput("That time has passed already. Name a later one.", field="due_at")
    _write(visit, due_at, now)
    step = flow.step(visit.step_key)
    name = step.name if step else visit.step_key
    runs.write(run)
    say(run, f"{chain.name} moved the due time of {name} to {_told(due_at)}: {reason}", runs.task_of(visit))
    told = {"step": visit.step_key, "name": name, "visit": visit.number, "text": reason[:2000]}
    told |= {"from": was.isoformat() if was else "", "to": due_at.isoformat()}
    board_id = run.flow.board_id
    record(Entry("step.due_moved", chain, board_id=board_id, task_key=visit.task_id, run_id=run.pk, data=told))


def _told(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%d %b %H:%M} UTC"


def _refuse_move(run: FlowRun, visit: Visit, now: datetime) -> None:
    if run.status != RunStatus.ACTIVE or visit.left_at is not None or visit.phase == Phase.FAILURE:
        raise IllegalRunMove("The run is not at work in this step any more, so its due time cannot be moved.")
    if visit.due_at is None:
        raise IllegalRunMove("This step has no due time.")
    if visit.due_at <= now:
        raise IllegalRunMove("The due time has passed. File the task again, or run the step again.")


def _write(visit: Visit, due_at: datetime, now: datetime) -> None:
    """The one guarded write: only while the time that is moved has not come. A question of the step moves with it."""
    taking(Rank.HOLD)
    asked: QuerySet[Hold] = Hold.objects.filter(visit=visit, branch=None, state=HoldState.OPEN, due_at=visit.due_at)
    landed = Visit.objects.filter(pk=visit.pk, left_at=None, due_at__gt=now).update(due_at=due_at)
    if landed != 1:
        raise IllegalRunMove("The due time has passed.")
    asked.filter(due_at__gt=now).update(due_at=due_at, revision=F("revision") + 1)


def _clock() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("select statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now

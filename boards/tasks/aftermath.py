"""What an ending owes, in the ending's own transaction: the count-down, closed holds, debts (spec: 01 section 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.db.models import DateTimeField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now

from boards.actors import Chain
from boards.debts import owing
from boards.event_log import Entry, record_all
from boards.locks import Rank, taking
from boards.models import Debt, Hold, Task, TaskDep, Visit
from boards.states import TERMINAL, Cause, HoldKind, HoldState, Status, Verb
from boards.tasks import notices
from boards.tasks.decisions import SUSPENDED
from boards.tasks.plain_rows import Statement

if TYPE_CHECKING:
    from boards.tasks.endings import Ended

WITHDRAW: Final = Cause.WITHDRAW  # the cause of a withdraw and of all that follows from it
LATE_CHECK: Final = "late_check"  # an agent's check: what it owes, and the name of the service that files it
CHECKS: Final = "checks"
WITHDRAWN_WORDS: Final = "The due time passed."


def count_down(completed: Sequence[int]) -> Statement:
    """The statement that lowers `unmet_deps` of all that depend on the completed rows, whatever their status.

    A statement of its own, after the update of the ended rows: a single one would keep the snapshot it took before it
    waited and miss an edge that was filed meanwhile (engineering notes, section 2). The rows are locked already.
    """
    return _COUNT_DOWN, [list(completed)]


_COUNT_DOWN = """
    update boards_task t
       set unmet_deps = t.unmet_deps - c.n, revision = t.revision + 1, updated_at = statement_timestamp()
      from (select dependent_id, count(*) as n from boards_taskdep
             where dependency_id = any(%s) group by dependent_id) c
     where t.pk = c.dependent_id"""


def discard_holds(ended: Sequence[Ended]) -> None:
    """Close what an ended task still asks; a late answer is told so (spec: 04 section 2.6).

    A withdrawn task's holds wait for their debt, behind the stop; the withdraw itself refuses answers from now on.
    """
    asking = {
        e.task.pk: Reason(e.settlement.chain, e.settlement.text or "The task ended.", e.settlement.cause)
        for e in ended
        if e.task.status in TERMINAL and e.task.open_holds and not _is_withdrawn(e)
    }
    close_holds(asking)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why holds are discarded, and by whom."""

    chain: Chain
    words: str
    cause: str = ""


def close_holds(asking: Mapping[int, Reason]) -> None:
    """Discard the open holds of these tasks, by key; the caller holds the tasks' locks."""
    taking(Rank.HOLD)
    if not asking:
        return
    closed = list(Hold.objects.filter(task__in=asking, state=HoldState.OPEN).select_for_update().order_by("pk"))
    because = {hold.pk: asking[hold.task_id] for hold in closed if hold.task_id is not None}
    for hold in closed:
        Hold.objects.filter(pk=hold.pk, state=HoldState.OPEN).update(
            state=HoldState.DISCARDED,
            answered_at=Now(),
            answered_by_name=because[hold.pk].chain.name,
            closed_reason=because[hold.pk].words,
            revision=F("revision") + 1,
        )
    Task.objects.filter(pk__in=asking).update(open_holds=0)
    visits = dict(Task.objects.filter(pk__in=asking, visit__isnull=False).values_list("pk", "visit__run_id"))
    record_all(
        Entry(
            "hold.discarded",
            because[hold.pk].chain,
            board_id=hold.board_id,
            task_key=hold.task_id,
            run_id=visits.get(hold.task_id or 0),
            cause=because[hold.pk].cause,
            attempt=hold.attempt,
            data={"hold": hold.pk, "prompt": hold.prompt[:500]},
        )
        for hold in closed
    )


def unasked(task: Task) -> QuerySet[Hold]:
    """The questions of its filing that keep a task from starting once it is retried.

    Those that an ending closed unanswered, and where it never ran the confirms that were closed without a yes.
    """
    filed = Hold.objects.filter(task=task, source=Hold.Source.FILING)
    refused = Q(kind=HoldKind.CONFIRM, state__in=[HoldState.ANSWERED, HoldState.EXPIRED]) & ~Q(answer__choice="yes")
    return filed.filter(Q(state=HoldState.DISCARDED) | (refused if task.started_at is None else Q(pk=None)))


def ask_again(chain: Chain, task: Task) -> None:
    """Open the questions that stand before the start again, with as much time as they had; events keep what was said.

    Without that a retry would open a gate to which nobody said yes. The caller counts them in `open_holds`.
    """
    taking(Rank.HOLD)
    asked = list(unasked(task).select_for_update().order_by("pk"))
    Hold.objects.filter(pk__in=[hold.pk for hold in asked]).update(
        state=HoldState.OPEN,
        asked_at=Now(),
        due_at=ExpressionWrapper(Now() + (F("due_at") - F("asked_at")), output_field=DateTimeField()),
        answer=None,
        answer_key="",
        answered_by=None,
        answered_by_name="",
        answered_at=None,
        closed_reason="",
        revision=F("revision") + 1,
    )
    record_all(
        Entry(
            "hold.opened",
            chain,
            board_id=hold.board_id,
            task_key=task.pk,
            run_id=run_of(task),
            data={"hold": hold.pk, "kind": hold.kind, "prompt": hold.prompt[:500]},
        )
        for hold in asked
    )


def settle_later(task_keys: Sequence[int]) -> dict[int, datetime]:
    """Of which tasks the last answer has not settled yet, and when it has: until then nothing follows from it."""
    if not task_keys:
        return {}
    waiting = Hold.objects.filter(task__in=task_keys, settles_at__gt=Now()).order_by("settles_at")
    found = waiting.values_list("task_id", "settles_at")
    return {key: at for key, at in found if key is not None and at is not None}


def waited_for(ended: Iterable[Ended]) -> set[int]:
    """Which of these rows ended badly, so that what depends on them cannot run."""
    bad = [one.task.pk for one in ended if one.task.status in TERMINAL and one.task.status != Status.COMPLETED]
    found = TaskDep.objects.filter(dependency__in=bad).values_list("dependency", flat=True).distinct()
    return set(found) if bad else set()


def owe(one: Ended, is_waited_for: bool) -> Debt | None:
    """The debts of one ending; answers its notice. A row that went back to pending owes nothing but the stop of its old
    worker.
    """
    lend = _owe_lend_end(one) if _is_withdrawn(one) else None
    stop = _owe_stop(one, after=lend)
    _owe_check(one)
    if one.task.status not in TERMINAL:
        return None
    told = notices.is_owed_by(one)
    if _is_withdrawn(one):
        _owe_withdraw(one, stop or lend)
        cascade = None
    else:
        _owe_resume(one)
        cascade = _owe_cascade(one, told) if is_waited_for else None
    notice = notices.owe(one, cascade) if told else None
    if _is_withdrawn(one):
        return notice
    if one.settlement.cancel_filed:
        _owe_children(one)
    if one.task.visit_id is not None:
        of_turn = one.settlement.cause == Cause.USER_CANCEL
        _owe_advance(one, after=stop if of_turn else None)
    return notice


def _owe_check(one: Ended) -> None:
    """A result that an agent checks is handed to it; an ended check has its verdict carried out (spec: 04, 5)."""
    task = one.task
    if task.status == Status.NEEDS_CHECK and task.checker not in {"none", "person"}:
        if task.board.roster.filter(name=task.checker).exclude(kind="person").exists():
            data = {"part": "hand_in", "task": task.pk, "attempt": task.attempts}
            owing.owe(LATE_CHECK, f"{LATE_CHECK}:{_ending(one)}", task=task, data=data)
    elif task.status in TERMINAL and task.filed_by == CHECKS:
        data = {"part": "verdict", "check_task": task.pk}
        owing.owe(LATE_CHECK, f"{LATE_CHECK}:verdict:{_ending(one)}", task=task, data=data)


def _is_withdrawn(one: Ended) -> bool:
    return one.settlement.verb is Verb.FLOW_DEADLINE


def _ending(one: Ended) -> str:
    return f"{one.task.pk}:{one.task.attempts}:{one.task.revision}"


def _owe_lend_end(one: Ended) -> Debt | None:
    """The first link of a withdraw's clean-up: what the worker was lent on an attempt that was still open."""
    if not one.ending:
        return None
    data = {"attempt": one.task.attempts}
    return owing.owe("lend_end", f"lend_end:{_ending(one)}", task=one.task, data=data)


def _owe_withdraw(one: Ended, after: Debt | None) -> None:
    """A withdraw never cascades. Its clean-up is a chain, each link due when the one before is paid: the end of the
    lend, the stop, what was held for a yes, then the step's failure (spec: 05 section 4.3).
    """
    task = one.task
    if Task.objects.filter(filed_by_task=task.pk).exclude(status__in=sorted(TERMINAL)).exists():
        _owe_children(one)
    if task.open_holds:
        key = f"holds_discard:{_ending(one)}"
        after = owing.owe("holds_discard", key, task=task, after=after, data={"reason": one.settlement.text})
    if task.visit_id is not None:
        _owe_failure_steps(one, after)


def _owe_failure_steps(one: Ended, after: Debt | None) -> None:
    due_at = one.settlement.due_at
    data: dict[str, Any] = {"visit": one.task.visit_id, "task_key": one.task.pk}
    data |= {"due_at": due_at.isoformat()} if due_at else {}
    key, run_id = f"flow_failure_steps:{_ending(one)}", one.run_id
    owing.owe("flow_failure_steps", key, task=one.task, run=run_id, after=after, data=data)


def _owe_resume(one: Ended) -> None:
    """A run that was suspended is taken up once more, to be told that it is cancelled (spec: 04 section 2.6).

    Only a drain can, so it is owed only where a drain ran it.
    """
    task = one.task
    if one.was_kept != SUSPENDED or task.status != Status.CANCELLED or not (one.claimed_by or {}).get("drain"):
        return
    data = {"attempt": task.attempts, "grant_no": task.grant_no}
    owing.owe("resume", f"resume:{task.pk}:{task.attempts}:{task.grant_no}", task=task, payer="drain", data=data)


def _owe_cascade(one: Ended, told: bool) -> Debt | None:
    """`told`: the filer hears of this ending, so it is told of the dependents with it and not by each of them."""
    task, settlement = one.task, one.settlement
    of_turn = task.visit_id is not None and settlement.cause == Cause.USER_CANCEL
    if of_turn:
        return None
    sessions = settlement.told | ({str(task.filer_id)} if told else set())
    return owing.owe(
        "cascade",
        f"cascade:{_ending(one)}",
        task=task,
        data={
            "incarnation": str(task.incarnation_id),
            "attempt": task.attempts,
            "status": task.status,
            "reason": settlement.text if settlement.via == "cascade" else _reason(task),
            "told": sorted(sessions),
        },
    )


def _owe_children(one: Ended) -> None:
    owing.owe("children_cancel", f"children_cancel:{_ending(one)}", task=one.task, data={"cause": one.settlement.cause})


def _owe_advance(one: Ended, after: Debt | None) -> None:
    task, settlement = one.task, one.settlement
    data: dict[str, Any] = {
        "visit": task.visit_id,
        "trigger": "task_ended",
        "task_key": task.pk,
        "ending": str(task.status),
        "cause": settlement.cause or settlement.via,
        "had_open_hold": task.open_holds > 0 or settlement.asked,
    }
    owing.owe("flow_advance", f"flow_advance:{_ending(one)}", task=task, run=one.run_id, after=after, data=data)


def _reason(task: Task) -> str:
    """Why dependents cannot run: it names the task that all of it came from."""
    return f"“{task.label}” {'failed' if task.status == Status.ERRORED else 'was skipped'}."


def _owe_stop(one: Ended, after: Debt | None = None) -> Debt | None:
    """A drain that still runs the row stops its worker; a run whose turn is over has no process to stop."""
    drain = (one.claimed_by or {}).get("drain")
    by_itself = one.settlement.options.claim is not None or one.settlement.verb is Verb.ABANDON
    if not drain or by_itself or one.was != Status.IN_PROGRESS or one.was_kept:
        return None
    return owing.owe(
        "session_stop",
        f"session_stop:{one.task.pk}:{one.task.attempts}:{one.task.grant_no}",
        task=one.task,
        payer=f"drain:{drain}",
        after=after,
        data={
            "attempt": one.task.attempts,
            "grant_no": one.task.grant_no,
            "lease_ms": one.lease_ms,
            "cause": one.settlement.cause,
        },
    )


def run_of(task: Task) -> int | None:
    """The flow run that a step's task belongs to, for its events."""
    if task.visit_id is None:
        return None
    return Visit.objects.filter(pk=task.visit_id).values_list("run_id", flat=True).first()


def runs_of(tasks: Iterable[Task]) -> dict[int, int]:
    """The same for many: the run of each visit, in one query, or none where no task is a step's."""
    visits = {task.visit_id for task in tasks if task.visit_id is not None}
    return dict(Visit.objects.filter(pk__in=visits).values_list("pk", "run_id")) if visits else {}

"""What an ending owes, in the ending's own transaction: the count-down, closed holds, debts (spec: 01 section 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django.db.models import DateTimeField, ExpressionWrapper, F, QuerySet
from django.db.models.functions import Now

from boards.actors import Chain
from boards.debts import owing
from boards.event_log import Entry, record_all
from boards.locks import Rank, taking
from boards.models import Hold, Task, TaskDep, Visit
from boards.states import TERMINAL, HoldState, Status, Verb
from boards.tasks.plain_rows import Statement

if TYPE_CHECKING:
    from boards.tasks.endings import Ended


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
    """Close what an ended task still asks; a late answer is told so (spec: 04 section 2.6)."""
    taking(Rank.HOLD)
    asking = {e.task.pk: e for e in ended if e.task.status in TERMINAL and e.task.open_holds}
    if not asking:
        return
    closed = list(Hold.objects.filter(task__in=asking, state=HoldState.OPEN).select_for_update().order_by("pk"))
    because = {hold.pk: asking[hold.task_id] for hold in closed if hold.task_id is not None}
    for hold in closed:
        Hold.objects.filter(pk=hold.pk, state=HoldState.OPEN).update(
            state=HoldState.DISCARDED,
            answered_at=Now(),
            answered_by_name=because[hold.pk].settlement.chain.name,
            closed_reason=because[hold.pk].settlement.text or "The task ended.",
            revision=F("revision") + 1,
        )
    Task.objects.filter(pk__in=asking).update(open_holds=0)
    record_all(
        Entry(
            "hold.discarded",
            because[hold.pk].settlement.chain,
            board_id=hold.board_id,
            task_key=hold.task_id,
            run_id=run_of(because[hold.pk].task),
            cause=because[hold.pk].settlement.cause,
            attempt=hold.attempt,
            data={"hold": hold.pk, "prompt": hold.prompt[:500]},
        )
        for hold in closed
    )


def unasked(task: Task) -> QuerySet[Hold]:
    """The questions of a task's filing that an ending closed unanswered."""
    return Hold.objects.filter(task=task, source=Hold.Source.FILING, state=HoldState.DISCARDED)


def ask_again(chain: Chain, task: Task) -> None:
    """Open the questions that an ending closed unanswered, with as much time as they had: they stand before the start.

    Without that a retry would open a gate to which nobody said yes. The caller counts them in `open_holds`.
    """
    taking(Rank.HOLD)
    asked = list(unasked(task).select_for_update().order_by("pk"))
    Hold.objects.filter(pk__in=[hold.pk for hold in asked]).update(
        state=HoldState.OPEN,
        asked_at=Now(),
        due_at=ExpressionWrapper(Now() + (F("due_at") - F("asked_at")), output_field=DateTimeField()),
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


def owe(one: Ended) -> None:
    """The debts of one ending. A row that went back to pending owes nothing but the stop of its old worker."""
    task, settlement = one.task, one.settlement
    stop = _owe_stop(one)
    if task.status not in TERMINAL:
        return
    ending = f"{task.pk}:{task.attempts}:{task.revision}"
    of_turn = task.visit_id is not None and settlement.cause == "user_cancel"
    if task.status != Status.COMPLETED and not of_turn and TaskDep.objects.filter(dependency=task.pk).exists():
        owing.owe(
            "cascade",
            f"cascade:{ending}",
            task=task,
            data={
                "incarnation": str(task.incarnation_id),
                "attempt": task.attempts,
                "status": task.status,
                "reason": settlement.text if settlement.via == "cascade" else _reason(task),
            },
        )
    if settlement.cancel_filed:
        owing.owe("children_cancel", f"children_cancel:{ending}", task=task, data={"cause": settlement.cause})
    if task.visit_id is not None:
        data: dict[str, Any] = {
            "visit": task.visit_id,
            "trigger": "task_ended",
            "task_key": task.pk,
            "ending": str(task.status),
            "cause": settlement.cause or settlement.via,
            "had_open_hold": task.open_holds > 0,
        }
        owing.owe(
            "flow_advance",
            f"flow_advance:{ending}",
            task=task,
            run=run_of(task),
            after=stop if of_turn else None,
            data=data,
        )


def _reason(task: Task) -> str:
    """Why dependents cannot run: it names the task that all of it came from."""
    return f"“{task.label}” {'failed' if task.status == Status.ERRORED else 'was skipped'}."


def _owe_stop(one: Ended) -> Any:
    """A drain that still runs the row stops its worker; a suspended run has no process to stop."""
    drain = (one.claimed_by or {}).get("drain")
    by_itself = one.settlement.options.claim is not None or one.settlement.verb is Verb.ABANDON
    if not drain or by_itself or one.was != Status.IN_PROGRESS or one.was_suspended:
        return None
    return owing.owe(
        "session_stop",
        f"session_stop:{one.task.pk}:{one.task.attempts}:{one.task.grant_no}",
        task=one.task,
        payer=f"drain:{drain}",
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

"""What every way of closing a hold shares: its locks, who may see it, and what the close sets off (spec: 04 section 2).

Task or run first, then the hold: answer, expiry, cancel and undo all take their locks here. Nothing here decides what
an answer is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from boards import errors, policy
from boards.actors import Chain, service
from boards.debts import owing
from boards.event_log import Entry, record, record_all
from boards.locks import Rank, engine_transaction, taking
from boards.models import FlowRun, Hold, Task, TranscriptItem
from boards.people import decisions, outlets
from boards.people.words import answer_line, closed_words
from boards.states import HoldState, RunStatus, Status
from boards.tasks import aftermath, cleaning, partitions, rows

Subject = Task | FlowRun


def visible(chain: Chain, hold_id: int, action: str, *, whoever_decides: bool = False) -> Hold:
    """The hold, for those who may do this to it; to everybody else it is as one that is not there (spec: 04, 2.3).

    `whoever_decides`: also where somebody else is to decide it.
    """
    found = Hold.objects.select_related("board", "task__board")
    hold = found.filter(pk=hold_id, board__space=chain.space_id).first()
    if hold is not None and not policy.allowed(chain, action):
        policy.note_refusal(chain, action)
        hold = None
    if hold is not None and not chain.sees_board(hold.board_id):
        hold = None
    if hold is None or not (whoever_decides or may_answer(chain, hold)) or not _in_own_partition(chain, hold):
        raise errors.NotFound("There is no such question here.")
    return hold


def may_answer(chain: Chain, hold: Hold) -> bool:
    """Whether this person may decide it: the right on the board, and the named assignee or role where one is set."""
    if hold.assignee_id is not None and hold.assignee_id != chain.user_id:
        return False
    return not hold.assignee_role or hold.assignee_role == chain.acting.role


def refuse_the_asker(chain: Chain, hold: Hold) -> None:
    """The key or the session that asked never decides its own question; a person who filed one may.

    A key goes by the name of its agent: what that agent asked or works is its own, whoever runs it.
    """
    own = chain.session_id is not None and chain.session_id == hold.asker_session_id
    if chain.key is not None:
        works = hold.task.assignee if hold.task is not None else ""
        by = (hold.task.claimed_by or {}).get("name") if hold.task is not None else None  # an outside worker's key
        own = own or chain.acting.name in {hold.asker, works, by}
    if own and chain.acting.kind != "person":
        raise errors.Forbidden("Whoever asked cannot answer.")


def _in_own_partition(chain: Chain, hold: Hold) -> bool:
    return hold.task is None or partitions.reaches(chain, hold.task)


def lock(hold_id: int) -> tuple[Hold, Subject]:
    """The hold, locked after its subject, and that subject."""
    place = Hold.objects.filter(pk=hold_id).values_list("task_id", "visit__run_id").first()
    if place is None:
        raise errors.NotFound("There is no such question here.")
    subject: Subject
    if place[0] is not None:
        subject, _ = rows.lock_one(place[0])
    else:
        taking(Rank.FLOW_RUN)
        subject = FlowRun.objects.select_for_update(no_key=True).get(pk=place[1])
    taking(Rank.HOLD)
    locked = Hold.objects.select_for_update(no_key=True, of=("self",)).select_related("board")
    return locked.get(pk=hold_id), subject


def in_time(hold: Hold) -> QuerySet[Hold]:
    """The open hold, where an act of a person still counts by the database's clock."""
    due = Q() if decisions.waits_past_due(hold) else Q(due_at__isnull=True) | Q(due_at__gt=Now())
    return Hold.objects.filter(due, pk=hold.pk, state=HoldState.OPEN)


def refuse_ended(hold: Hold, subject: Subject) -> None:
    """Answering reads the subject's status in its own transaction: an ended one takes no answer."""
    if isinstance(subject, Task) and subject.withdrawn:
        raise errors.DueTimePassed("The due time passed; this is no longer asked.", hold=hold)
    if isinstance(subject, Task) and subject.is_ended:
        label = Status(subject.status).label
        raise errors.AlreadyAnswered(f"The task is {label}; this is no longer asked.", hold=hold)
    if isinstance(subject, FlowRun) and subject.status != RunStatus.ACTIVE:
        label = RunStatus(subject.status).label.lower()
        raise errors.AlreadyAnswered(f"The run is {label}; this is no longer asked.", hold=hold)


def too_late(hold: Hold) -> errors.AlreadyAnswered:
    when = f"{hold.due_at:%H:%M} UTC" if hold.due_at else "its end"
    return errors.AlreadyAnswered(f"The due time passed at {when}. {closed_words(hold)}", hold=hold)


@engine_transaction
def closed(chain: Chain, hold: Hold, subject: Subject, kind: str) -> None:
    """What closing a hold sets off: the task's count and resume, or the flow's advance as a debt; and the event.

    All of it lies ahead by as long as the answer settles.
    """
    if isinstance(subject, Task):
        closed_of_tasks([Closing(chain, hold, subject)], kind)
        return
    owing.owe(
        "flow_advance",
        advance_key(hold),
        run=subject.pk,
        due_at=hold.settles_at,
        data={"visit": hold.visit_id, "trigger": "hold_closed", "hold": hold.pk},
    )
    record(_event(kind, chain, hold, subject.pk))


@dataclass(frozen=True, slots=True)
class Closing:
    """A hold that was closed, whoever closed it, and its locked task."""

    chain: Chain
    hold: Hold
    task: Task


@engine_transaction
def closed_of_tasks(closings: Sequence[Closing], kind: str) -> None:
    """The same for holds of as many tasks, each of which is there once."""
    runs = aftermath.runs_of(one.task for one in closings)
    _let_go_on(closings)
    for one in closings:
        outlets.owe_delivery(one.hold, one.task)
    record_all(_event(kind, one.chain, one.hold, runs.get(one.task.visit_id or 0)) for one in closings)


def _event(kind: str, chain: Chain, hold: Hold, run_id: int | None) -> Entry:
    answer = hold.answer or {}
    data = {
        "hold": hold.pk,
        "prompt": hold.prompt[:500],
        "choice": answer.get("choice", ""),
        "text": (answer.get("text") or hold.closed_reason)[:2000],
    }
    return Entry(
        kind, chain, board_id=hold.board_id, task_key=hold.task_id, run_id=run_id, attempt=hold.attempt, data=data
    )


def advance_key(hold: Hold) -> str:
    """The key of the debt by which an answered step's hold moves its flow on; also the flow's operation id.

    Of this answer: after an undo the next one is another operation.
    """
    assert hold.answered_at is not None  # it is closed
    return f"flow_advance:hold:{hold.pk}:{round(hold.answered_at.timestamp() * 1_000_000)}"


def settled_at(task_key: int) -> Any:
    """When the last answer of this task has settled, as a write takes it: that moment, or now."""
    return aftermath.settle_later([task_key]).get(task_key, rows.NOW)


def _let_go_on(closings: Sequence[Closing]) -> None:
    """One open hold less; the last one lets a suspended run be taken up again on the same attempt.

    A no to what stood before the start keeps the task from starting: it is held until somebody releases it.
    """
    was = [one.task.status for one in closings]
    later = aftermath.settle_later([one.task.pk for one in closings if one.task.open_holds == 1])
    writes = [rows.Write(one.task, _one_less(one.hold, one.task, later.get(one.task.pk))) for one in closings]
    if len(rows.write_many(writes)) < len(writes):
        raise errors.Refusal("The task changed meanwhile. Try again.")
    for one, before in zip(closings, was, strict=True):
        if one.task.status != before:
            note_move(one.chain, one.hold, one.task, "task.held", before)
        if one.hold.attempt:
            say(one.task, one.hold, answer_line(one.hold))


def _one_less(hold: Hold, task: Task, settles_at: datetime | None) -> dict[str, Any]:
    """The fields of a task of which one question fewer is open. `settles_at`: when the last answer has settled."""
    last = task.open_holds == 1
    changes: dict[str, Any] = {"open_holds": task.open_holds - 1}
    if last and task.kept_open_by == "suspended":
        changes["resume_ready_at"] = settles_at or rows.NOW
    if last and task.status in {Status.PENDING, Status.HELD} and settles_at is not None:  # also once it is released
        changes["not_before"] = max(settles_at, task.not_before or settles_at)
    if decisions.keeps_from_starting(hold) and task.status == Status.PENDING and not task.attempts:
        changes["status"] = Status.HELD
    return changes


def note_move(chain: Chain, hold: Hold, task: Task, kind: str, was: str) -> None:
    """The event of a task that a hold moved to another status."""
    record(
        Entry(
            kind,
            chain,
            board_id=task.board_id,
            task_key=task.pk,
            run_id=aftermath.run_of(task),
            from_status=was,
            to_status=task.status,
            data={"hold": hold.pk},
        )
    )


def say(task: Task, hold: Hold, line: str) -> None:
    """One line of the attempt's transcript about what became of a hold."""
    TranscriptItem.objects.create(
        task=task,
        attempt=hold.attempt,
        session_id=(task.run or {}).get("session_id") or None,
        kind=TranscriptItem.Kind.ANSWERED,
        who=hold.answered_by_name,
        text=cleaning.report_line(line),
        data={"hold": hold.pk},
    )


def sweeper_of(hold: Hold) -> Chain:
    return service("sweeper", hold.board.space_id)

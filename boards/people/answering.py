"""Answers, dismissals and expiries: one conditional write decides, and the first wins (spec: 04 section 2).

Answer, expiry and cancel all lock the task (or the run) first, then the hold. The due time is tested in the write by
the database's clock, so it does not matter who comes first. Silence is never a yes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from boards import errors, policy
from boards.actors import Chain, service
from boards.debts import owing
from boards.event_log import Entry, record
from boards.locks import Rank, engine_transaction, taking
from boards.models import FlowRun, Hold, Task, TranscriptItem
from boards.people import decisions, votes
from boards.states import HoldKind, HoldState, RunStatus, Status
from boards.stored_text import clean_text
from boards.tasks import aftermath, cleaning, partitions, rows


def answer_hold(
    chain: Chain,
    hold_id: int,
    *,
    choice: str = "",
    text: str = "",
    values: dict[str, Any] | None = None,
    shown_hash: str = "",
    idempotency_key: str = "",
) -> Hold:
    """Answer an open hold; the same answer under the same key again answers the first result.

    Raises NotFound (not there, or not theirs to see), Forbidden, InvalidInput, DraftChanged, AlreadyAnswered (with who,
    what and when in words).
    """
    seen = _visible(chain, hold_id)
    policy.require(chain, "holds.answer", chain.space_id)
    if chain.session_id is not None and chain.session_id == seen.asker_session_id and chain.acting.kind != "person":
        raise errors.Forbidden("Whoever asked cannot answer.")
    key = cleaning.checked_text(idempotency_key, "idempotency_key", cleaning.MAX_KEY)
    answer = decisions.checked_answer(seen, choice, text, values or {})
    if seen.kind in decisions.BOUND and shown_hash != seen.draft_hash:
        raise errors.DraftChanged
    hold, expired = _answer(chain, hold_id, answer, shown_hash, key)
    if expired:
        raise _too_late(hold)
    return hold


@engine_transaction
def _answer(
    chain: Chain, hold_id: int, answer: dict[str, Any], shown_hash: str, idempotency_key: str
) -> tuple[Hold, bool]:
    """The one conditional write; (hold, True) where the due time had passed and the expiry was done instead."""
    hold, subject = _lock(hold_id)
    if hold.state != HoldState.OPEN:
        if idempotency_key and idempotency_key == hold.answer_key and hold.answer == answer:
            return hold, False
        raise errors.AlreadyAnswered(closed_words(hold), hold=hold)
    _refuse_ended(hold, subject)
    if hold.kind in decisions.BOUND and shown_hash != hold.draft_hash:
        raise errors.DraftChanged
    if hold.quorum is not None and _in_time(hold).exists():
        decided = votes.cast(chain, hold, answer)
        if decided is None:
            return hold, False
        answer = decided
    landed = _in_time(hold).update(
        state=HoldState.ANSWERED,
        answer=answer,
        answer_key=idempotency_key,
        answered_by=chain.user_id,
        answered_by_name=chain.name,
        answered_at=Now(),
        revision=F("revision") + 1,
    )
    if not landed:
        return _expire(hold, subject), True
    hold.refresh_from_db()
    _closed(chain, hold, subject, "hold.answered")
    return hold, False


def _in_time(hold: Hold) -> QuerySet[Hold]:
    """The open hold, where an act of a person still counts by the database's clock."""
    due = Q() if decisions.waits_past_due(hold) else Q(due_at__isnull=True) | Q(due_at__gt=Now())
    return Hold.objects.filter(due, pk=hold.pk, state=HoldState.OPEN)


def _too_late(hold: Hold) -> errors.AlreadyAnswered:
    when = f"{hold.due_at:%H:%M} UTC" if hold.due_at else "its end"
    return errors.AlreadyAnswered(f"The due time passed at {when}. {closed_words(hold)}", hold=hold)


def dismiss_hold(chain: Chain, hold_id: int, reason: str = "") -> Hold:
    """End one question without its task: the run goes on and is told that nobody answers.

    Past its due time it expires instead, as if the sweeper had come first, and AlreadyAnswered says so.
    """
    policy.require(chain, "holds.dismiss", chain.space_id)
    _visible(chain, hold_id)
    words = cleaning.checked_text(reason, "reason", cleaning.MAX_REASON)
    hold, expired = _dismiss(chain, hold_id, words or "Dismissed.")
    if expired:
        raise _too_late(hold)
    return hold


@engine_transaction
def _dismiss(chain: Chain, hold_id: int, reason: str) -> tuple[Hold, bool]:
    hold, subject = _lock(hold_id)
    if hold.state != HoldState.OPEN:
        raise errors.AlreadyAnswered(closed_words(hold), hold=hold)
    _refuse_ended(hold, subject)
    if hold.source not in {Hold.Source.SUSPENSION, Hold.Source.WORKER}:
        raise errors.Forbidden("Only a worker's question can be dismissed.")
    landed = _in_time(hold).update(
        state=HoldState.DISCARDED,
        answered_by=chain.user_id,
        answered_by_name=chain.name,
        answered_at=Now(),
        closed_reason=reason,
        revision=F("revision") + 1,
    )
    if not landed:
        return _expire(hold, subject), True
    hold.refresh_from_db()
    _closed(chain, hold, subject, "hold.discarded")
    return hold, False


def expire_due(limit: int = 200) -> int:
    """Perform the expiry of every hold whose due time has passed; answers how many. Two sweepers do each once.

    One that cannot expire keeps no other from it: what it raises is raised once all the others are done.
    """
    due = (
        Hold.objects.filter(state=HoldState.OPEN, due_at__lte=Now())
        .exclude(kind__in=["question", "confirm"], default="")
        .order_by("due_at", "pk")
    )
    expired, failed = 0, None
    for pk in list(due.values_list("pk", flat=True)[:limit]):
        try:
            expired += _expire_one(pk)
        except Exception as error:
            failed = error
    if failed is not None:
        raise failed
    return expired


@engine_transaction
def _expire_one(hold_id: int) -> bool:
    hold, subject = _lock(hold_id)
    if isinstance(subject, Task) and subject.withdrawn:
        return False  # its debt discards it, with the reason in words
    still_due = Hold.objects.filter(pk=hold_id, state=HoldState.OPEN, due_at__lte=Now()).exists()
    if still_due:
        _expire(hold, subject)
    return still_due


def _expire(hold: Hold, subject: Task | FlowRun) -> Hold:
    Hold.objects.filter(pk=hold.pk, state=HoldState.OPEN).update(
        state=HoldState.EXPIRED,
        answer=decisions.expiry_answer(hold),
        answered_by_name="the due time",
        answered_at=Now(),
        closed_reason="Nobody answered in time.",
        revision=F("revision") + 1,
    )
    hold.refresh_from_db()
    space_id = hold.board.space_id
    _closed(service("sweeper", space_id), hold, subject, "hold.expired")
    return hold


@engine_transaction
def discard_visit_holds(chain: Chain, visit_id: int, reason: str, *, branches: Collection[int] | None = None) -> int:
    """Close what a visit still asks, or only these branches of it, with the reason; the caller holds the run's lock."""
    taking(Rank.HOLD)
    reason = clean_text(reason)
    open_holds = Hold.objects.filter(visit=visit_id, state=HoldState.OPEN)
    if branches is not None:
        open_holds = open_holds.filter(branch__in=branches)
    closed = list(open_holds.select_for_update().order_by("pk"))
    if not closed:
        return 0
    open_holds.update(
        state=HoldState.DISCARDED,
        answered_at=Now(),
        answered_by_name=chain.name,
        closed_reason=reason,
        revision=F("revision") + 1,
    )
    for hold in closed:
        record(
            Entry(
                "hold.discarded",
                chain,
                board_id=hold.board_id,
                run_id=hold.visit.run_id if hold.visit else None,
                data={"hold": hold.pk, "prompt": hold.prompt[:500], "text": reason},
            )
        )
    return len(closed)


def closed_words(hold: Hold) -> str:
    """Who closed it, how and when, in one plain sentence."""
    when = f"{hold.answered_at:%H:%M} UTC" if hold.answered_at else "just now"
    who = hold.answered_by_name or "Somebody"
    if hold.state == HoldState.EXPIRED:
        return f"Nobody answered in time; it was closed at {when}."
    if hold.state == HoldState.DISCARDED:
        return f"{who} closed this at {when}: {hold.closed_reason or 'it is no longer asked.'}"
    choice = (hold.answer or {}).get("choice", "")
    past = {"approve": "approved", "reject": "rejected", "send": "sent", "discard": "discarded"}.get(choice)
    if past:
        return f"{who} {past} this at {when}."
    if hold.kind == HoldKind.INPUT:
        return f"{who} filled in the form at {when}."
    label = dict(decisions.choices_of(hold)).get(choice, choice) or (hold.answer or {}).get("text", "")[:80]
    return f"{who} answered “{label}” at {when}."


def _visible(chain: Chain, hold_id: int) -> Hold:
    found = Hold.objects.select_related("board", "task__board")
    hold = found.filter(pk=hold_id, board__space=chain.space_id).first()
    if hold is None or not may_answer(chain, hold) or not _in_own_partition(chain, hold):
        raise errors.NotFound("There is no such question here.")
    return hold


def _in_own_partition(chain: Chain, hold: Hold) -> bool:
    return hold.task is None or partitions.reaches(chain, hold.task)


def may_answer(chain: Chain, hold: Hold) -> bool:
    """Whether this person may decide it: the right on the board, and the named assignee or role where one is set."""
    if hold.assignee_id is not None and hold.assignee_id != chain.user_id:
        return False
    return not hold.assignee_role or hold.assignee_role == chain.acting.role


def _lock(hold_id: int) -> tuple[Hold, Task | FlowRun]:
    """The hold, locked after its subject, and that subject."""
    place = Hold.objects.filter(pk=hold_id).values_list("task_id", "visit__run_id").first()
    if place is None:
        raise errors.NotFound("There is no such question here.")
    subject: Task | FlowRun
    if place[0] is not None:
        subject, _ = rows.lock_one(place[0])
    else:
        taking(Rank.FLOW_RUN)
        subject = FlowRun.objects.select_for_update(no_key=True).get(pk=place[1])
    taking(Rank.HOLD)
    return Hold.objects.select_for_update(no_key=True, of=("self",)).select_related("board").get(pk=hold_id), subject


def _refuse_ended(hold: Hold, subject: Task | FlowRun) -> None:
    """Answering reads the subject's status in its own transaction: an ended one takes no answer."""
    if isinstance(subject, Task) and subject.withdrawn:
        raise errors.DueTimePassed("The due time passed; this is no longer asked.", hold=hold)
    if isinstance(subject, Task) and subject.is_ended:
        label = Status(subject.status).label
        raise errors.AlreadyAnswered(f"The task is {label}; this is no longer asked.", hold=hold)
    if isinstance(subject, FlowRun) and subject.status != RunStatus.ACTIVE:
        label = RunStatus(subject.status).label.lower()
        raise errors.AlreadyAnswered(f"The run is {label}; this is no longer asked.", hold=hold)


def _closed(chain: Chain, hold: Hold, subject: Task | FlowRun, kind: str) -> None:
    """What closing a hold sets off: the task's count and resume, or the flow's advance as a debt; and the event."""
    if isinstance(subject, Task):
        run_id = aftermath.run_of(subject)
        _let_go_on(chain, hold, subject)
    else:
        run_id = subject.pk
        owing.owe(
            "flow_advance",
            f"flow_advance:hold:{hold.pk}",
            run=subject.pk,
            data={"visit": hold.visit_id, "trigger": "hold_closed", "hold": hold.pk},
        )
    record(
        Entry(
            kind,
            chain,
            board_id=hold.board_id,
            task_key=hold.task_id,
            run_id=run_id,
            attempt=hold.attempt,
            data={
                "hold": hold.pk,
                "prompt": hold.prompt[:500],
                "choice": (hold.answer or {}).get("choice", ""),
                "text": ((hold.answer or {}).get("text") or hold.closed_reason)[:2000],
            },
        )
    )


def _let_go_on(chain: Chain, hold: Hold, task: Task) -> None:
    """One open hold less; the last one lets a suspended run be taken up again on the same attempt.

    A no to what stood before the start keeps the task from starting: it is held until somebody releases it.
    """
    last, was = task.open_holds == 1, task.status
    changes: dict[str, Any] = {"open_holds": task.open_holds - 1}
    if last and task.kept_open_by == "suspended":
        changes["resume_ready_at"] = rows.NOW
    if decisions.keeps_from_starting(hold) and was == Status.PENDING and not task.attempts:
        changes["status"] = Status.HELD
    if not rows.write(task, changes):
        raise errors.Refusal("The task changed meanwhile. Try again.")
    if task.status != was:
        record(
            Entry(
                "task.held",
                chain,
                board_id=task.board_id,
                task_key=task.pk,
                run_id=aftermath.run_of(task),
                from_status=was,
                to_status=task.status,
                data={"hold": hold.pk},
            )
        )
    if hold.attempt:
        TranscriptItem.objects.create(
            task=task,
            attempt=hold.attempt,
            session_id=(task.run or {}).get("session_id") or None,
            kind=TranscriptItem.Kind.ANSWERED,
            who=hold.answered_by_name,
            text=cleaning.report_line(_answer_line(hold)),
            data={"hold": hold.pk},
        )


def _answer_line(hold: Hold) -> str:
    answer = hold.answer or {}
    if "values" in answer:
        return "Filled in the form."
    label = dict(decisions.choices_of(hold)).get(answer.get("choice", ""), "")
    words = answer.get("text", "")
    return ": ".join(part for part in (label, words) if part) or hold.closed_reason or "Closed."

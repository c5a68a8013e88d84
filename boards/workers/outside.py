"""The verbs of an outside worker: each under the token that its claim answered, and the key that claimed (spec: 06, 3).

Every door that lets such workers in makes one call here. A claim that has moved on is declined with its reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from boards import errors, flows, keys, people, tasks
from boards.locks import engine_transaction
from boards.models import Attempt, Hold, Task, TranscriptItem
from boards.tasks import Claimed, Filing, Line, LostClaim, Recorded, TaskWriteOutcome, cleaning, decisions
from boards.tasks.claims import LARGEST_LEASE_MS, SMALLEST_LEASE_MS
from boards.workers import briefing, outputs
from boards.workers.outside_claims import (
    Given,
    Held,
    Place,
    claim,
    claimed_before,
    given,
    held,
    may_work,
    place_for,
)
from boards.workers.outside_writes import lost, refused, require_started, row_of, written
from boards.workers.protocol import Answer, Ask
from boards.workers.protocol import ReplayMismatch as Mismatch
from boards.workers.replay import Replay, answer_of, content, options_of

__all__ = [
    "Ask",
    "Given",
    "Held",
    "Place",
    "ask",
    "claim",
    "claimed_before",
    "complete",
    "complete_step",
    "fail",
    "file",
    "hand_back",
    "held",
    "may_work",
    "place_for",
    "progress",
    "renew",
    "say",
    "spend",
    "start",
    "suspend",
]

MAX_LINES: Final = 200
_STOPS: Final = frozenset({"approval", "review", "input", "gate"})


def start(own: Held, lease_ms: int | None, idempotency_key: str) -> Given:
    """Pass the gate and start the run, once; a repeat under the same key answers it again while the grant stands."""

    def begin() -> TaskWriteOutcome:
        started = tasks.start(own.chain, own.ticket, own.who, _first_words(own), lease_ms=lease_ms)
        return TaskWriteOutcome(Recorded.RECORDED, started.task.status)

    written(own, "start", {"lease_ms": lease_ms}, begin, idempotency_key)
    row = row_of(own, whole=True)
    if refusal := decisions.lost(own.ticket, row, row.db_now):
        raise refused(own, refusal)
    return given([Claimed(row, own.ticket)], own.key_id)[0]


def renew(own: Held, lease_ms: int | None) -> tuple[datetime | None, list[str]]:
    """Move the lease by its committed span, or to `lease_ms` from now; the new deadline and the messages so far."""
    row = row_of(own)
    if lease_ms is not None:
        cleaning.checked_int(lease_ms, "lease_ms", SMALLEST_LEASE_MS, LARGEST_LEASE_MS)
    span_ms = lease_ms or row.lease_duration_ms or row.board.lease_ms
    deadline = row.db_now + timedelta(milliseconds=span_ms)
    written(own, "renew", None, lambda: tasks.renew_lease(row, deadline, claim=own.ticket), "")
    return _now(own)


def say(own: Held, lines: Sequence[Line], idempotency_key: str) -> TaskWriteOutcome:
    """Append lines to the transcript; what is too long is cut, and says so."""
    require_started(own)
    if not 1 <= len(lines) <= MAX_LINES:
        raise errors.InvalidInput(f"items holds 1 to {MAX_LINES} lines. Send others in the next call.", field="items")
    ticket, session_id = own.ticket, _session(own)
    said = [replace(line, task_key=ticket.task_key, attempt=ticket.attempt, session_id=session_id) for line in lines]
    told = [[line.kind, line.text, line.data] for line in lines]
    return written(own, "output", told, lambda: tasks.report_lines(said, claim=ticket), idempotency_key)


def progress(own: Held, fields: dict[str, Any], idempotency_key: str) -> tuple[datetime | None, list[str]]:
    """Store the note and the checkpoint; the deadline as it is and the messages so far. `fields`: note, output."""
    require_started(own)
    key = own.ticket.task_key

    def report() -> TaskWriteOutcome:
        return tasks.report_progress(own.chain, key, claim=own.ticket, **fields)

    written(own, "progress", fields, report, idempotency_key)
    return _now(own)


def ask(own: Held, question: Ask) -> tuple[Hold, Answer | None]:
    """Ask a person; the answer where one is there. The same question asked again is the same one.

    Without a key a question is known by its content. On a new attempt answers that may be taken over are found again.
    """
    require_started(own)
    task_key = own.ticket.task_key
    replay = Replay.of(briefing.beside([task_key])[1].get(task_key, ()), own.ticket.attempt)
    key = question.key or f"={hashlib.sha256(content(question).encode()).hexdigest()}"
    try:
        hold = replay.find(replace(question, key=key), key)
    except Mismatch as mismatch:
        raise errors.ReplayMismatch(str(mismatch).partition(": ")[2]) from None
    if hold is None:
        hold = _opened(own, question, key)
    elif refusal := lost(own):
        raise refusal
    answer = answer_of(people.with_settling(Hold.objects.all()).get(pk=hold.pk))
    if answer is not None and hold.read_at is None:
        people.note_read(own.ticket, hold.pk)
    return hold, answer


def file(own: Held, filing: Filing, idempotency_key: str) -> Task:
    """File a task that this one needs; it goes by the worker's name and to its session."""
    require_started(own)
    parent, session_id = row_of(own, whole=True), _session(own)

    @engine_transaction
    def filed() -> Task:
        keys.require_standing(own.key_id)
        if refusal := lost(own):
            raise refusal
        return tasks.file_task(
            own.chain,
            parent.board,
            filing,
            filed_by_task=parent,
            session_id=session_id,
            idempotency_key=idempotency_key,
            claim=own.ticket,
        )

    try:
        return filed()
    except LostClaim:
        raise lost(own) or errors.TaskWriteDeclined("The claim has moved on.") from None


def complete_step(own: Held, summary: str, handoff: Any, blockers: Any) -> bool:
    """Say that the flow step of this turn is complete; whether that was taken down: once, and only in a step."""
    require_started(own)

    @engine_transaction
    def signalled() -> bool:
        keys.require_standing(own.key_id)
        return flows.complete_step(own.chain, own.ticket, summary, handoff=handoff, blockers=blockers)

    try:
        return signalled()
    except LostClaim:
        raise lost(own) or errors.TaskWriteDeclined("The claim has moved on.") from None


def suspend(own: Held, idempotency_key: str) -> TaskWriteOutcome:
    """End the turn until the answers are there; the next claim hands the task out again, on the same attempt."""
    require_started(own)
    asked = Hold.objects.filter(task=own.ticket.task_key, attempt=own.ticket.attempt)
    if not asked.exists():
        raise lost(own) or errors.InvalidInput(
            "Nothing is asked, so there is nothing to wait for. Ask first, or hand it back."
        )
    return written(own, "suspend", None, lambda: people.suspend(own.ticket), idempotency_key)


def complete(own: Held, output: Any, idempotency_key: str, *, given: bool) -> TaskWriteOutcome:
    """Hand in the result; without one the latest checkpoint is it. One that the board does not take fails the attempt.

    A result that comes too late is kept aside in the transcript.
    """
    require_started(own, hands_in=True)
    row, key = own.task, own.ticket.task_key
    if not given and row.output_is_checkpoint:
        output, given = row.output, True
    words = outputs.problem(row, output, given=given)

    def hand_in() -> TaskWriteOutcome:
        if words:
            return tasks.fail(own.chain, key, words, claim=own.ticket, if_allowed=True)
        return tasks.complete(own.chain, key, output, claim=own.ticket, if_allowed=True)

    def too_late(_: TaskWriteOutcome) -> None:
        _keep_aside(own, json.dumps(output, ensure_ascii=False))

    return written(own, "complete", [output, given], hand_in, idempotency_key, declined=too_late)


def fail(own: Held, error: str, ending: str, idempotency_key: str) -> TaskWriteOutcome:
    """Record a failure; `ending` errored or cancelled ends the task for good, its tries unspent."""
    key = own.ticket.task_key

    def give_up() -> TaskWriteOutcome:
        if ending:
            return tasks.end_for_good(own.chain, key, error, claim=own.ticket, ending=ending)
        return tasks.fail(own.chain, key, error, claim=own.ticket, if_allowed=True)

    return written(own, "fail", [error, ending], give_up, idempotency_key)


def hand_back(own: Held, reason: str, idempotency_key: str) -> TaskWriteOutcome:
    """Give the task back unworked: nothing is spent."""
    words = cleaning.checked_text(reason, "reason", cleaning.MAX_REASON)

    def give() -> TaskWriteOutcome:
        return tasks.hand_back(own.chain, own.ticket.task_key, claim=own.ticket, reason=words, if_allowed=True)

    return written(own, "hand_back", words, give, idempotency_key)


def spend(own: Held, part: str, spent: dict[str, Any] | None, idempotency_key: str) -> TaskWriteOutcome:
    """Keep what was spent, also after the task has ended: one entry for each grant of an attempt."""
    request, key = f"outside:{own.ticket.grant_no}", own.ticket.task_key

    def keep() -> TaskWriteOutcome:
        return tasks.record_spend(own.chain, key, request, part, spent, claim=own.ticket)

    return written(own, "spend", [part, spent], keep, idempotency_key)


def _now(own: Held) -> tuple[datetime | None, list[str]]:
    row = row_of(own)
    return row.lease_until, [str(steer["text"]) for steer in row.steers]


def _session(own: Held) -> UUID | None:
    return own.attempt.session_id


def _opened(own: Held, question: Ask, key: str) -> Hold:
    @engine_transaction
    def opened() -> Hold:
        keys.require_standing(own.key_id)
        return people.open_hold(
            own.chain,
            claim=own.ticket,
            kind=question.kind,
            prompt=question.prompt,
            title=question.title,
            context=question.context,
            options=options_of(question.options),
            schema=None if question.schema is None else dict(question.schema),
            draft=question.draft,
            due_in_ms=question.due_in_ms,
            default=question.default,
            assignee=question.assignee,
            dedup_key=key,
            source=Hold.Source.SUSPENSION if question.kind in _STOPS else Hold.Source.WORKER,
        )

    try:
        return opened()
    except LostClaim:
        raise lost(own) or errors.TaskWriteDeclined("The claim has moved on.") from None


def _keep_aside(own: Held, text: str) -> None:
    """A late result changes nothing; people can still read it. One for each attempt, and none that was handed in."""
    ticket = own.ticket
    handed_in = {Attempt.Ending.COMPLETED, Attempt.Ending.HANDED_IN}
    attempt = Attempt.objects.filter(pk=ticket.attempt_key).values_list("ending", flat=True).first()
    lines = TranscriptItem.objects.filter(task=ticket.task_key, attempt=ticket.attempt)
    if attempt is None or attempt in handed_in or lines.filter(kind=TranscriptItem.Kind.LATE).exists():
        return
    tasks.add_transcript(
        ticket.task_key, ticket.attempt, TranscriptItem.Kind.LATE, text, own.who, session_id=_session(own)
    )


def _first_words(own: Held) -> str:
    by = own.task.claimed_by or {}
    where = f" on {by['host']}" if by.get("host") else ""
    number, task = own.ticket.attempt, own.task
    worker = f"an outside worker with the key {own.caller.acting.name}{where}"
    if own.attempt.session_id is not None:
        return f"Attempt {number} goes on with {worker}."
    if number > 1 and task.feedback:
        return f"Attempt {number} started by {worker}. It was told: {task.feedback[:2000]}"
    return f"Attempt {number} started by {worker}."

"""The verbs of an outside worker: each under the token that its claim answered, and the key that claimed (spec: 06, 3).

Every door that lets such workers in makes one call here. A token that does not hold is answered like one that does not
exist; a claim that has moved on is declined with its reason. Whether the key still stands is asked inside each write,
so that once a revoke has answered nothing more is recorded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db.models.functions import Now
from django.views.decorators.debug import sensitive_variables

from boards import errors, flows, keys, people, policy, tasks
from boards.actors import Chain
from boards.locks import engine_transaction
from boards.models import Attempt, Board, Hold, Task, TranscriptItem
from boards.stored_text import clean_text
from boards.tasks import (
    Claimed,
    Filing,
    Line,
    LostClaim,
    Reason,
    Recorded,
    TaskWriteOutcome,
    Ticket,
    cleaning,
    decisions,
    idempotency,
    outside,
    partitions,
)
from boards.tasks.claims import LARGEST_LEASE_MS, SMALLEST_LEASE_MS
from boards.workers import briefing, outputs
from boards.workers.protocol import Answer, Ask, TaskFacts
from boards.workers.protocol import ReplayMismatch as Mismatch
from boards.workers.replay import Replay, answer_of, content, options_of

Value = TypeVar("Value")

MAX_LINES: Final = 200
_STOPS: Final = frozenset({"approval", "review", "input", "gate"})


@dataclass(frozen=True)
class Held:
    """What a token stands for: the ticket, and its attempt with the task as it was read."""

    caller: Chain
    ticket: Ticket
    attempt: Attempt

    @property
    def task(self) -> Task:
        return self.attempt.task

    @property
    def key_id(self) -> int:
        return self.caller.key_id or 0

    @property
    def who(self) -> str:
        """The name that the worker acts under."""
        return self.attempt.assignee or self.caller.acting.name

    @cached_property
    def chain(self) -> Chain:
        """Person → agent by its key → the worker, in the session of its run, with what the claim lends it."""
        return replace(outside.worker_chain(self.caller, self.attempt.assignee), session_id=self.attempt.session_id)


@dataclass(frozen=True, slots=True)
class Given:
    """One task as its worker gets it."""

    token: str
    task: Task
    facts: TaskFacts
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key's worker claims, and under which name its host stands on the pages."""

    board: Board
    where: outside.Place
    host: str


def may_work(caller: Chain) -> int:
    """The id of the caller's key. Raises Forbidden, for all who show none, and before anything is looked up."""
    policy.require(caller, "tasks.claim", caller.space_id)
    if caller.key_id is None:
        raise errors.Forbidden("An outside worker shows a key that has the scope work. Make one.")
    return caller.key_id


def place_for(caller: Chain, board: Board, assignees: Sequence[str], host: str) -> Place:
    """Raises as `boards.tasks.outside.place_for`, and InvalidInput."""
    where = outside.place_for(caller, board, [clean_text(name) for name in assignees])
    return Place(board, where, cleaning.checked_text(host, "host", outside.MAX_HOST).strip())


def claim(caller: Chain, place: Place, limit: int, lease_ms: int | None, idempotency_key: str) -> list[Given]:
    """Take up to `limit` tasks, each with its token; empty where there is nothing to take now."""
    key_id = caller.key_id or 0
    by = {"key": key_id, "name": caller.acting.name, "host": place.host}
    terms = outside.Terms(limit, lease_ms, by, idempotency_key)
    got = outside.claim_outside(caller, place.where, terms, first=lambda: keys.require_standing(key_id))
    return _given(got, key_id)


def claimed_before(caller: Chain, idempotency_key: str) -> bool:
    """Whether a claim under this key took something: a repeat has nothing to wait for."""
    return outside.claimed_before(caller, idempotency_key)


@sensitive_variables()
def held(caller: Chain, token: str, named: str = "") -> Held:
    """What this caller holds by the token. `named`: the task that the call is about, where it names one.

    Raises Forbidden, TicketRefused, TaskWriteDeclined for another task than the one that is held.
    """
    ticket, attempt = keys.unsealed(token, may_work(caller))
    if attempt.task.board.space_id != caller.space_id or not partitions.reaches(caller, attempt.task):
        raise errors.TicketRefused
    if named and named != ticket.task_id:
        words = f'You hold task "{ticket.task_id}", not "{named[: cleaning.MAX_KEY]}".'
        raise errors.TaskWriteDeclined(words, reason=Reason.NOT_MY_TASK.value)
    return Held(caller, ticket, attempt)


def start(own: Held, lease_ms: int | None, idempotency_key: str) -> Given:
    """Pass the gate and start the run, once; a repeat under the same key answers it again while the grant stands."""

    def begin() -> TaskWriteOutcome:
        started = tasks.start(own.chain, own.ticket, own.who, _first_words(own), lease_ms=lease_ms)
        return TaskWriteOutcome(Recorded.RECORDED, started.task.status)

    _written(own, "start", {"lease_ms": lease_ms}, begin, idempotency_key)
    row = _row(own, whole=True)
    if refusal := decisions.lost(own.ticket, row, row.db_now):
        raise _refused(own, refusal)
    return _given([Claimed(row, own.ticket)], own.key_id)[0]


def renew(own: Held, lease_ms: int | None) -> tuple[datetime | None, list[str]]:
    """Move the lease by its committed span, or to `lease_ms` from now; the new deadline and the messages so far."""
    row = _row(own)
    if lease_ms is not None:
        cleaning.checked_int(lease_ms, "lease_ms", SMALLEST_LEASE_MS, LARGEST_LEASE_MS)
    span_ms = lease_ms or row.lease_duration_ms or row.board.lease_ms
    deadline = row.db_now + timedelta(milliseconds=span_ms)
    _written(own, "renew", None, lambda: tasks.renew_lease(row, deadline, claim=own.ticket), "")
    return _now(own)


def say(own: Held, lines: Sequence[Line], idempotency_key: str) -> TaskWriteOutcome:
    """Append lines to the transcript; what is too long is cut, and says so."""
    _require_started(own)
    if not 1 <= len(lines) <= MAX_LINES:
        raise errors.InvalidInput(f"items holds 1 to {MAX_LINES} lines. Send others in the next call.", field="items")
    ticket, session_id = own.ticket, _session(own)
    said = [replace(line, task_key=ticket.task_key, attempt=ticket.attempt, session_id=session_id) for line in lines]
    told = [[line.kind, line.text, line.data] for line in lines]
    return _written(own, "output", told, lambda: tasks.report_lines(said, claim=ticket), idempotency_key)


def progress(own: Held, fields: dict[str, Any], idempotency_key: str) -> tuple[datetime | None, list[str]]:
    """Store the note and the checkpoint; the deadline as it is and the messages so far. `fields`: note, output."""
    _require_started(own)
    key = own.ticket.task_key

    def report() -> TaskWriteOutcome:
        return tasks.report_progress(own.chain, key, claim=own.ticket, **fields)

    _written(own, "progress", fields, report, idempotency_key)
    return _now(own)


def ask(own: Held, question: Ask) -> tuple[Hold, Answer | None]:
    """Ask a person; the answer where one is there. The same question asked again is the same one.

    Without a key a question is known by its content. On a new attempt answers that may be taken over are found again.
    """
    _require_started(own)
    task_key = own.ticket.task_key
    replay = Replay.of(briefing.beside([task_key])[1].get(task_key, ()), own.ticket.attempt)
    key = question.key or f"={hashlib.sha256(content(question).encode()).hexdigest()}"
    try:
        hold = replay.find(replace(question, key=key), key)
    except Mismatch as mismatch:
        raise errors.ReplayMismatch(str(mismatch).partition(": ")[2]) from None
    if hold is None:
        hold = _opened(own, question, key)
    elif refusal := _lost(own):
        raise refusal
    answer = answer_of(people.with_settling(Hold.objects.all()).get(pk=hold.pk))
    if answer is not None and hold.read_at is None:
        people.note_read(own.ticket, hold.pk)
    return hold, answer


def file(own: Held, filing: Filing, idempotency_key: str) -> Task:
    """File a task that this one needs; it goes by the worker's name and to its session."""
    _require_started(own)
    parent, session_id = _row(own, whole=True), _session(own)

    @engine_transaction
    def filed() -> Task:
        keys.require_standing(own.key_id)
        if refusal := _lost(own):
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
        raise _lost(own) or errors.TaskWriteDeclined("The claim has moved on.") from None


def complete_step(own: Held, summary: str, handoff: Any, blockers: Any) -> bool:
    """Say that the flow step of this turn is complete; whether that was taken down: once, and only in a step."""
    _require_started(own)

    @engine_transaction
    def signalled() -> bool:
        keys.require_standing(own.key_id)
        return flows.complete_step(own.chain, own.ticket, summary, handoff=handoff, blockers=blockers)

    try:
        return signalled()
    except LostClaim:
        raise _lost(own) or errors.TaskWriteDeclined("The claim has moved on.") from None


def suspend(own: Held, idempotency_key: str) -> TaskWriteOutcome:
    """End the turn until the answers are there; the next claim hands the task out again, on the same attempt."""
    _require_started(own)
    asked = Hold.objects.filter(task=own.ticket.task_key, attempt=own.ticket.attempt)
    if not asked.exists():
        raise _lost(own) or errors.InvalidInput(
            "Nothing is asked, so there is nothing to wait for. Ask first, or hand it back."
        )
    return _written(own, "suspend", None, lambda: people.suspend(own.ticket), idempotency_key)


def complete(own: Held, output: Any, idempotency_key: str, *, given: bool) -> TaskWriteOutcome:
    """Hand in the result; without one the latest checkpoint is it. One that the board does not take fails the attempt.

    A result that comes too late is kept aside in the transcript.
    """
    _require_started(own)
    row, key = own.task, own.ticket.task_key
    if not given and row.output_is_checkpoint:
        output, given = row.output, True
    words = outputs.problem(row.board, output, given=given)

    def hand_in() -> TaskWriteOutcome:
        if words:
            return tasks.fail(own.chain, key, words, claim=own.ticket, if_allowed=True)
        return tasks.complete(own.chain, key, output, claim=own.ticket, if_allowed=True)

    def too_late(_: TaskWriteOutcome) -> None:
        _keep_aside(own, json.dumps(output, ensure_ascii=False))

    return _written(own, "complete", [output, given], hand_in, idempotency_key, declined=too_late)


def fail(own: Held, error: str, ending: str, idempotency_key: str) -> TaskWriteOutcome:
    """Record a failure; `ending` errored or cancelled ends the task for good, its tries unspent."""
    key = own.ticket.task_key

    def give_up() -> TaskWriteOutcome:
        if ending:
            return tasks.end_for_good(own.chain, key, error, claim=own.ticket, ending=ending)
        return tasks.fail(own.chain, key, error, claim=own.ticket, if_allowed=True)

    return _written(own, "fail", [error, ending], give_up, idempotency_key)


def hand_back(own: Held, reason: str, idempotency_key: str) -> TaskWriteOutcome:
    """Give the task back unworked: nothing is spent."""
    words = cleaning.checked_text(reason, "reason", cleaning.MAX_REASON)

    def give() -> TaskWriteOutcome:
        return tasks.hand_back(own.chain, own.ticket.task_key, claim=own.ticket, reason=words, if_allowed=True)

    return _written(own, "hand_back", words, give, idempotency_key)


def spend(own: Held, part: str, spent: dict[str, Any] | None, idempotency_key: str) -> TaskWriteOutcome:
    """Keep what was spent, also after the task has ended: one entry for each grant of an attempt."""
    request, key = f"outside:{own.ticket.grant_no}", own.ticket.task_key

    def keep() -> TaskWriteOutcome:
        return tasks.record_spend(key, request, part, spent, claim=own.ticket)

    return _written(own, "spend", [part, spent], keep, idempotency_key)


def _given(claimed: Sequence[Claimed], key_id: int) -> list[Given]:
    """What the workers are told: a few queries for the whole batch."""
    if not claimed:
        return []
    results, holds = briefing.beside([one.task.pk for one in claimed])
    return [
        Given(
            keys.sealed(one.ticket, key_id),
            one.task,
            briefing.facts_of(one.task, one.ticket, results.get(one.task.pk, {}), holds.get(one.task.pk, ())),
            one.resumed,
        )
        for one in claimed
    ]


def _written(
    own: Held,
    verb: str,
    told: Any,
    act: Callable[[], TaskWriteOutcome],
    idempotency_key: str,
    declined: Callable[[TaskWriteOutcome], None] | None = None,
) -> TaskWriteOutcome:
    """One write under the ticket while the key stands, once under its idempotency key. Raises what declines it."""

    @engine_transaction
    def write() -> TaskWriteOutcome:
        keys.require_standing(own.key_id)
        return act()

    said = [own.ticket.attempt_key, own.ticket.grant_no, told]
    outcome = idempotency.once(own.caller, f"work.{verb}", idempotency_key, own.task, said, write)
    if not outcome.landed:
        if declined is not None:
            declined(outcome)
        raise _refused(own, outcome)
    return outcome


def _refused(own: Held, outcome: TaskWriteOutcome) -> errors.Refusal:
    """A decline as the refusal that every door shows."""
    facts = {"reason": outcome.reason.value if outcome.reason else None, "status_seen": outcome.status}
    facts["task_id"] = own.ticket.task_id
    if Task.objects.filter(pk=own.ticket.task_key, withdrawn__isnull=False).exists():
        return errors.DueTimePassed("The due time passed, so the task was withdrawn. Stop working on it.", **facts)
    return errors.TaskWriteDeclined(outcome.sentence or "The claim has moved on.", **facts)


def _lost(own: Held) -> errors.Refusal | None:
    row = _row(own)
    refusal = decisions.lost(own.ticket, row, row.db_now)
    if refusal is None and decisions.waits_for_filed(row):
        refusal = decisions.handed_in(row)
    return None if refusal is None else _refused(own, refusal)


def _require_started(own: Held) -> None:
    """Work is done by a run that was started: only that makes a ticket which is delivered twice start once."""
    row = own.task
    if row.grant_no == own.ticket.grant_no and row.attempts == own.ticket.attempt and row.run is None:
        raise _lost(own) or errors.NotStarted(task_id=own.ticket.task_id)


def _row(own: Held, *, whole: bool = False) -> Any:
    """The row as it is, with its board, and in `db_now` the time by the database's clock; `whole`: with its texts."""
    rows = Task.objects.select_related("board").annotate(db_now=Now()).filter(pk=own.ticket.task_key)
    row = (rows if whole else rows.defer(*keys.LONG_FIELDS)).first()
    if row is None:
        raise errors.TicketRefused
    return row


def _now(own: Held) -> tuple[datetime | None, list[str]]:
    row = _row(own)
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
        raise _lost(own) or errors.TaskWriteDeclined("The claim has moved on.") from None


def _keep_aside(own: Held, text: str) -> None:
    """A late result changes nothing; people can still read it. One for each attempt, and none that was handed in."""
    ticket = own.ticket
    handed_in = {Attempt.Ending.COMPLETED, Attempt.Ending.HANDED_IN}
    attempt = Attempt.objects.filter(pk=ticket.attempt_key).values_list("ending", flat=True).first()
    lines = TranscriptItem.objects.filter(task=ticket.task_key, attempt=ticket.attempt)
    if attempt is None or attempt in handed_in or lines.filter(kind=TranscriptItem.Kind.LATE).exists():
        return
    words = f"Late result, kept aside: {text}"
    tasks.add_transcript(
        ticket.task_key, ticket.attempt, TranscriptItem.Kind.LATE, words, own.who, session_id=_session(own)
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

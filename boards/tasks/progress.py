"""What a worker says while it works: progress, checkpoints, transcript lines; and receipts (spec: 01, 02 section 6)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from boards import live_notices
from boards.actors import Chain
from boards.errors import InvalidInput, TaskNotFound
from boards.event_log import Entry, record
from boards.lines import lines as as_rows
from boards.locks import Rank, engine_transaction, taking
from boards.models import Attempt, Task, TranscriptItem
from boards.stored_text import clean_text
from boards.tasks import aftermath, decisions, rows
from boards.tasks.cleaning import MAX_KEY, report_data, report_json, report_line
from boards.tasks.types import Reason, Recorded, TaskWriteOutcome, Ticket

_NOTHING = object()


@engine_transaction
def report_progress(
    chain: Chain,
    task: Task | int,
    *,
    claim: Ticket,
    output: Any = _NOTHING,
    note: str | None = None,
    write: str = "",
) -> TaskWriteOutcome:
    """Store the latest note and checkpoint of the running attempt, under its ticket.

    Declines with `terminal`, `not-my-task`, `lost-claim`, or `disallowed` once it was handed in; raises TaskNotFound.
    """
    row, now = rows.lock_one(task)
    if row.board.space_id != chain.space_id:
        raise TaskNotFound
    if refusal := decisions.lost(claim, row, now):
        return refusal
    if decisions.waits_for_filed(row):
        return decisions.handed_in(row)
    changes: dict[str, Any] = {}
    if note is not None:
        changes["status_note"] = report_line(note)
    if output is not _NOTHING:
        changes |= {"output": report_json(output), "output_is_checkpoint": True}
    if not changes:
        return TaskWriteOutcome(Recorded.UNCHANGED, row.status)
    if not rows.write(row, changes, fenced=True, receipt=write):
        return TaskWriteOutcome(Recorded.DECLINED, row.status, Reason.LOST_CLAIM)
    record(
        Entry(
            "task.progressed",
            chain,
            board_id=row.board_id,
            task_key=row.pk,
            run_id=aftermath.run_of(row),
            from_status=row.status,
            to_status=row.status,
            attempt=row.attempts,
        )
    )
    return TaskWriteOutcome(Recorded.RECORDED, row.status)


@dataclass(frozen=True, slots=True)
class Line:
    """One transcript line as it is reported. `kind` is one of TranscriptItem.Kind."""

    task_key: int
    attempt: int
    text: str
    kind: str = TranscriptItem.Kind.OUTPUT
    who: str = ""
    data: Any = None
    session_id: uuid.UUID | None = None


def add_transcript(
    task_key: int,
    attempt: int,
    kind: str,
    text: str,
    who: str = "",
    data: Any = None,
    session_id: uuid.UUID | None = None,
) -> None:
    add_transcript_lines([Line(task_key, attempt, text, kind, who, data, session_id)])


def add_transcript_lines(lines: Sequence[Line], *, announce: bool = True) -> None:
    """Append lines; they are cleaned and cut, and announced like any change. Lines are no state: no ticket is asked.

    `announce` off: the same transaction announces a change of these tasks anyway.
    """
    if not lines:
        return
    source, params = as_rows([_line_values(line) for line in lines], _LINE)
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_LINES.format(source), params)
    if not announce:
        return
    for key, board_id, run_id in Task.objects.filter(pk__in={line.task_key for line in lines}).values_list(
        "pk", "board_id", "visit__run_id"
    ):
        live_notices.changed(board_id, task_key=key, run_id=run_id)


@engine_transaction
def report_lines(lines: Sequence[Line], *, claim: Ticket) -> TaskWriteOutcome:
    """Append what a worker elsewhere says, under its ticket: unlike one of ours nobody stops it once it lost its claim.

    All lines are of the ticket's task and attempt.
    """
    row, now = rows.lock_one(claim.task_key)
    if refusal := decisions.lost(claim, row, now):
        return refusal
    add_transcript_lines(lines)
    return TaskWriteOutcome(Recorded.RECORDED if lines else Recorded.UNCHANGED, row.status)


_LINE = {
    "session": "uuid",
    "task": "bigint",
    "attempt": "int",
    "kind": "text",
    "who": "text",
    "words": "text",
    "data": "jsonb",
}
# In the order of the list: ids, which say what came first, follow it.
_INSERT_LINES = """
    insert into boards_transcriptitem (session_id, task_id, attempt, kind, who, text, data)
    select session, task, attempt, kind, who, words, data from {} order by place
"""


def _line_values(line: Line) -> tuple[Any, ...]:
    data = None if line.data is None else report_data(line.data)
    who, text = clean_text(line.who), report_line(line.text)
    session = None if line.session_id is None else str(line.session_id)
    return session, line.task_key, line.attempt, str(line.kind), who, text, data


def record_step(claim: Ticket, name: str, result: Any) -> Any:
    """Store the result of `task.step(name)` on the attempt, the first time only; answers what is stored.

    Raises InvalidInput for a name that could not be found again: a step would be done twice.
    """
    if not 1 <= len(name) <= MAX_KEY or clean_text(name) != name:
        raise InvalidInput(f"step: the name of a step has 1 to {MAX_KEY} characters, all of them storable.")
    return _record_step(claim, name, report_json(result, mask=False))


@engine_transaction
def _record_step(claim: Ticket, name: str, result: Any) -> Any:
    row, now = rows.lock_one(claim.task_key)
    if not decisions.owns_row(claim, row, now):
        raise LostClaim
    taking(Rank.ATTEMPT)
    attempt = Attempt.objects.select_for_update(no_key=True).get(pk=claim.attempt_key)
    if name not in attempt.steps:
        Attempt.objects.filter(pk=attempt.pk, ended_at__isnull=True).update(steps={**attempt.steps, name: result})
        return result
    return attempt.steps[name]


class LostClaim(Exception):
    """The claim has moved on: nothing more that this worker does is kept."""


def recorded_steps(claim: Ticket) -> dict[str, Any]:
    """Results of `task.step` that may be reused: the attempt's own, or those of one that was lost or handed back."""
    reusable = [Attempt.Ending.LOST, Attempt.Ending.HANDED_BACK]
    own = Attempt.objects.filter(pk=claim.attempt_key).values_list("steps", flat=True).first() or {}
    before = Attempt.objects.filter(task=claim.task_key, number=claim.attempt - 1, ending__in=reusable)
    earlier = before.values_list("steps", flat=True).first() or {}
    return {**earlier, **own}


@dataclass(frozen=True, slots=True)
class WriteToken:
    """What `did_write_land` compares: the row as it was when the write was begun."""

    id: str
    incarnation_id: uuid.UUID
    revision: int


def begin_task_write(task: Task) -> WriteToken:
    """Mint the receipt's token before a write; pass `token.id` as `write`."""
    return WriteToken(uuid.uuid4().hex, task.incarnation_id, task.revision)


def did_write_land(task: Task | None, token: WriteToken) -> bool | None:
    """Whether the write is on the row; None where that cannot be told (spec: 02 section 6, in its order)."""
    if task is None:
        return None
    if any(entry["id"] == token.id for entry in task.write_log):
        return True
    if task.incarnation_id != token.incarnation_id or task.revision < token.revision:
        return None
    if task.revision == token.revision:
        return False
    if any(entry["revision"] <= token.revision for entry in task.write_log) or not task.write_log_truncated:
        return False
    return None

"""Opens holds: by a worker under its ticket, or by a flow step on its visit (spec: 04 section 1).

The row is committed before anyone can be told of it. The same question asked again by one attempt is the same row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models.functions import Now

from boards import errors, live_notices
from boards.actors import Chain
from boards.event_log import Entry, record
from boards.locks import Rank, engine_transaction, taking
from boards.models import Branch, Hold, Task, TranscriptItem, Visit
from boards.people import assigning, closing, decisions, outlets, votes
from boards.states import HoldKind, HoldState
from boards.tasks import aftermath, cleaning, notices, recording, rows
from boards.tasks.decisions import handed_in, lost, owns_row, waits_for_filed
from boards.tasks.progress import LostClaim
from boards.tasks.types import Reason, Recorded, TaskWriteOutcome, Ticket

LONGEST_DUE_MS = 100 * 365 * 86_400_000


@engine_transaction
def open_hold(
    chain: Chain,
    *,
    claim: Ticket,
    kind: str,
    prompt: str,
    title: str = "",
    context: str = "",
    options: Sequence[dict[str, Any]] = (),
    schema: dict[str, Any] | None = None,
    draft: Any = None,
    due_at: datetime | None = None,
    due_in_ms: int | None = None,
    default: str = "",
    dedup_key: str = "",
    source: str = Hold.Source.SUSPENSION,
    assignee: str = "",
) -> Hold:
    """Ask a person on behalf of a running attempt; open, or answered already where the same was asked before.

    `dedup_key` "" takes the next position of the attempt; `assignee` is a person of the roster or a role, "" anyone.
    Raises LostClaim where the ticket no longer holds, and InvalidInput for a question that cannot be shown.
    """
    key = cleaning.checked_text(dedup_key, "dedup_key", cleaning.MAX_KEY)
    due = _due(due_at, due_in_ms)
    row, now = rows.lock_one(claim.task_key)
    if row.board.space_id != chain.space_id:
        raise errors.TaskNotFound
    if not owns_row(claim, row, now) or waits_for_filed(row):  # nobody would take it up with the answer
        raise LostClaim
    taking(Rank.HOLD)
    asked = Hold.objects.filter(task=row.pk, attempt=row.attempts)
    position = asked.count()
    key = key or f"#{position}"
    if found := asked.filter(dedup_key=key).first():
        return found
    fields = _checked(kind, prompt, title, context, options, schema, draft, default)
    hold = Hold.objects.create(
        board_id=row.board_id,
        task=row,
        attempt=row.attempts,
        position=position,
        source=source,
        dedup_key=key,
        asker=row.assignee or chain.name,
        asker_session_id=chain.session_id,
        due_at=due,
        request_id=(row.run or {}).get("request_id", ""),
        outlet=outlets.outlet_of(kind, row.board.roster.filter(name=row.assignee).first()) if kind == "gate" else "",
        **fields,
        **assigning.for_whom(row.board, assignee),
    )
    # A turn that is over may ask once more before it is resumed; then it waits for that answer too.
    if not rows.write(row, {"open_holds": row.open_holds + 1, "resume_ready_at": None}, fenced=True):
        raise LostClaim
    _say_asked(row, hold)
    record(_opened(chain, hold, aftermath.run_of(row)))
    hold.refresh_from_db()
    return hold


@engine_transaction
def open_step_hold(
    chain: Chain,
    visit: Visit,
    *,
    kind: str,
    prompt: str,
    title: str = "",
    context: str = "",
    draft: Any = None,
    schema: dict[str, Any] | None = None,
    due_at: datetime | None = None,
    due_in_ms: int | None = None,
    assignee_id: int | None = None,
    assignee_role: str = "",
    branch: Branch | None = None,
    dedup_key: str = "",
    quorum: dict[str, str] | None = None,
) -> Hold:
    """Ask on behalf of a flow step, or of a branch of one. The caller holds the run's lock; the visit is its current
    one. `quorum`: {"role", "threshold"}, where several persons decide; InvalidInput where they never could.
    """
    taking(Rank.HOLD)
    fields = _checked(kind, prompt, title, context, (), schema, draft, "")
    if quorum is not None:
        votes.check(visit.run.flow.space_id, quorum)
    hold, made = Hold.objects.get_or_create(
        visit=visit,
        dedup_key=dedup_key or ("step" if branch is None else f"branch:{branch.pk}"),
        defaults={
            "branch": branch,
            "quorum": quorum,
            "board_id": visit.run.flow.board_id,
            "source": Hold.Source.STEP,
            "asker": visit.run.flow.name,
            "asker_session_id": visit.run.session_id,
            "due_at": _due(due_at, due_in_ms),
            "assignee_id": assignee_id,
            "assignee_role": assignee_role,
            **fields,
        },
    )
    if made:
        record(_opened(chain, hold, visit.run_id))
        hold.refresh_from_db()
    return hold


def _checked(
    kind: str,
    prompt: str,
    title: str,
    context: str,
    options: Sequence[dict[str, Any]],
    schema: dict[str, Any] | None,
    draft: Any,
    default: str,
) -> dict[str, Any]:
    if kind not in HoldKind.values:
        raise errors.InvalidInput(f"kind must be one of {', '.join(HoldKind.values)}.", field="kind")
    choices = cleaning.checked_options(kind, options)
    checked_schema = decisions.checked_schema(schema)
    checked_draft = None if draft is None else cleaning.clean_json(draft, "draft")
    checked = {
        "kind": kind,
        "prompt": cleaning.required_text(prompt or title, "prompt", 50_000),
        "title": cleaning.checked_title(title),
        "context": cleaning.checked_text(context, "context"),
        "options": choices,
        "schema": checked_schema,
        "draft": checked_draft,
        "draft_hash": decisions.draft_hash(checked_draft),
        "default": cleaning.checked_default(kind, choices, default),
    }
    checked["content_hash"] = decisions.content_hash(checked["prompt"], choices, checked_schema, checked_draft)
    return checked


def _due(at: datetime | None, in_ms: int | None) -> Any:
    """The due time, or the moment by the database's clock so many milliseconds from now."""
    if in_ms is None:
        return cleaning.checked_moment(at, "due_at")
    return Now() + timedelta(milliseconds=cleaning.checked_int(in_ms, "due_in_ms", 0, LONGEST_DUE_MS))


@engine_transaction
def suspend(claim: Ticket) -> TaskWriteOutcome:
    """End the turn of a run that waits on people: no lease, no slot. Ready at once where all is answered already."""
    row, now = rows.lock_one(claim.task_key)
    if refusal := lost(claim, row, now):
        return refusal
    if waits_for_filed(row):
        return handed_in(row)
    changes: dict[str, Any] = {"kept_open_by": "suspended", "lease_until": None}
    if row.open_holds == 0:
        changes["resume_ready_at"] = closing.settled_at(row.pk)
    problem = recording.add_metadata(row, "suspended", changes)
    if not rows.write(row, changes, fenced=True):
        return TaskWriteOutcome(Recorded.DECLINED, row.status, Reason.LOST_CLAIM)
    if problem:
        recording.note_failure(row, "suspended", problem)
    live_notices.changed(row.board_id, task_key=row.pk)
    notices.release([row.pk])
    return TaskWriteOutcome(Recorded.RECORDED, row.status)


@engine_transaction
def note_read(claim: Ticket, hold_id: int) -> None:
    """The worker has read this answer."""
    unread = Hold.objects.filter(pk=hold_id, task=claim.task_key, read_at__isnull=True).exclude(state=HoldState.OPEN)
    unread.exclude(settles_at__gt=Now()).update(read_at=Now())


def _say_asked(row: Task, hold: Hold) -> None:
    TranscriptItem.objects.create(
        session_id=(row.run or {}).get("session_id") or None,
        task=row,
        attempt=row.attempts,
        kind=TranscriptItem.Kind.ASKED,
        who=hold.asker,
        text=hold.prompt[:2000],
        data={"hold": hold.pk},
    )


def _opened(chain: Chain, hold: Hold, run_id: int | None) -> Entry:
    data = {"hold": hold.pk, "kind": hold.kind, "prompt": hold.prompt[:500]}
    return Entry(
        "hold.opened",
        chain,
        board_id=hold.board_id,
        task_key=hold.task_id,
        run_id=run_id,
        attempt=hold.attempt,
        data=data,
    )

"""The settle time of an answer, and taking one back within it (spec: 04 section 3.3).

The answer is recorded, shown and first at once; only what follows from it lies ahead by so many seconds. Until then its
author, and nobody else, may take it back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Now

from boards import errors, policy
from boards.actors import Chain
from boards.event_log import Entry, record
from boards.locks import Rank, engine_transaction, taking
from boards.models import Debt, Event, Hold, Member, Task, Visit
from boards.people import closing, decisions, outlets, votes
from boards.people.closing import Subject
from boards.people.words import closed_words
from boards.states import HoldKind, HoldState, RunStatus, Status
from boards.tasks import aftermath, cleaning, rows

LONGEST_S: Final = 10
GATE_S: Final = 3  # of a gate draft at least: what went out cannot be called back


def until(chain: Chain, hold: Hold) -> Any:
    """When an answer of this caller is final, as the write takes it; None where it is at once."""
    member = Member.objects.filter(space=chain.space_id, user=chain.user_id)
    seconds = member.values_list("settle_s", flat=True).first() or 0
    if hold.kind == HoldKind.GATE:
        seconds = max(seconds, GATE_S)
    return Now() + timedelta(seconds=seconds) if seconds else None


def set_settle_time(chain: Chain, seconds: Any) -> int:
    """Let one's own answers settle for 0 to 10 seconds from now on. Raises InvalidInput."""
    policy.require(chain, "holds.answer", chain.space_id)
    wanted = cleaning.checked_int(seconds, "settle_s", 0, LONGEST_S)
    Member.objects.filter(space=chain.space_id, user=chain.user_id).update(settle_s=wanted)
    return wanted


def undo_hold(chain: Chain, hold_id: int) -> Hold:
    """Take one's own answer back while it settles: the question is open again, and nothing has followed from it.

    Raises NotFound, Forbidden (somebody else's answer), AlreadyAnswered where it has settled.
    """
    closing.visible(chain, hold_id, "holds.answer")
    return _undo(chain, hold_id)


@engine_transaction
def _undo(chain: Chain, hold_id: int) -> Hold:
    hold, subject = closing.lock(hold_id)
    if hold.state == HoldState.OPEN:
        raise errors.AlreadyAnswered("It is open: there is no answer to take back.", hold=hold)
    mine = chain.user_id is not None and hold.answered_by_id == chain.user_id
    if hold.state == HoldState.ANSWERED and not mine:
        raise errors.Forbidden("Only whoever answered may take the answer back.")
    was = closed_words(hold)
    if hold.state != HoldState.ANSWERED or hold.read_at is not None or not _stands(hold, subject):
        raise errors.AlreadyAnswered(f"It is too late to take this back. {was}", hold=hold)
    landed = Hold.objects.filter(
        pk=hold.pk, state=HoldState.ANSWERED, answered_by=chain.user_id, settles_at__gt=Now()
    ).update(
        state=HoldState.OPEN,
        answer=None,
        answer_key="",
        answered_by=None,
        answered_by_name="",
        answered_at=None,
        settles_at=None,
        revision=F("revision") + 1,
    )
    if not landed:
        raise errors.AlreadyAnswered(f"It is too late to take this back. {was}", hold=hold)
    if hold.quorum is not None:  # the vote that decided is taken back with it; an earlier one of theirs stands again
        votes.take_back(hold, chain)
    _call_off(chain, hold, subject)
    data = {"hold": hold.pk, "prompt": hold.prompt[:500], "choice": (hold.answer or {}).get("choice", "")}
    run_id = aftermath.run_of(subject) if isinstance(subject, Task) else subject.pk
    record(
        Entry(
            "hold.undone",
            chain,
            board_id=hold.board_id,
            task_key=hold.task_id,
            run_id=run_id,
            attempt=hold.attempt,
            data=data,
        )
    )
    hold.refresh_from_db()
    return hold


def _stands(hold: Hold, subject: Subject) -> bool:
    """Whether the subject still is where the question found it, so that it can be asked again there."""
    if not isinstance(subject, Task):
        goes_on = subject.status == RunStatus.ACTIVE and subject.archived_at is None
        stays = Visit.objects.filter(holds=hold, left_at=None)
        ended = hold.branch is not None and bool(hold.branch.outcome)
        return goes_on and subject.current_visit_id == hold.visit_id and stays.exists() and not ended
    if hold.source == Hold.Source.FILING:
        return subject.status in {Status.PENDING, Status.HELD} and not subject.is_ended
    return subject.status == Status.IN_PROGRESS and subject.attempts == hold.attempt


def _call_off(chain: Chain, hold: Hold, subject: Subject) -> None:
    """Nothing follows from the answer any more: no resume, no start, no advance, no delivery."""
    if isinstance(subject, Task):
        was = subject.status
        changes: dict[str, Any] = {"open_holds": subject.open_holds + 1, "resume_ready_at": None}
        if was == Status.HELD and _held_by(hold, subject):
            changes["status"] = Status.PENDING
        if not rows.write(subject, changes):
            raise errors.Refusal("The task changed meanwhile. Try again.")
        if subject.status != was:
            closing.note_move(chain, hold, subject, "task.released", was)
        if hold.attempt:
            closing.say(subject, hold, f"{chain.name} took the answer back.")
    taking(Rank.DEBT)
    keys = [closing.advance_key(hold), outlets.delivery_key(hold)]
    Debt.objects.filter(unique_key__in=keys, state=Debt.State.OWED).delete()


def _held_by(hold: Hold, task: Task) -> bool:
    """Whether this very answer held the task; one that was filed held stays so."""
    held = Event.objects.filter(task=task.pk, kind="task.held", data__hold=hold.pk, at__gte=hold.answered_at)
    return decisions.keeps_from_starting(hold) and held.exists()

"""Holds that end without an answer: past their due time, or with the visit that asked (spec: 04 sections 2.6 and 2.8).

One clock, not who comes first: whoever finds the due time past performs this same expiry. Silence is never a yes.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import F
from django.db.models.functions import Now

from boards.actors import Chain
from boards.each import each_by_itself
from boards.event_log import Entry, record
from boards.locks import Rank, engine_transaction, taking
from boards.models import Hold, Task
from boards.people import closing, decisions
from boards.people.closing import Subject
from boards.states import HoldState
from boards.stored_text import clean_text


def expire_due(limit: int = 200) -> int:
    """Perform the expiry of every hold whose due time has passed; answers how many. Two sweepers do each once.

    One that cannot expire keeps no other from it: what it raises is raised once all the others are done.
    """
    due = (
        Hold.objects.filter(state=HoldState.OPEN, due_at__lte=Now())
        .exclude(kind__in=["question", "confirm"], default="")
        .order_by("due_at", "pk")
    )
    return each_by_itself(list(due.values_list("pk", flat=True)[:limit]), _expire_one)


@engine_transaction
def _expire_one(hold_id: int) -> bool:
    hold, subject = closing.lock(hold_id)
    if isinstance(subject, Task) and subject.withdrawn:
        return False  # its debt discards it, with the reason in words
    still_due = Hold.objects.filter(pk=hold_id, state=HoldState.OPEN, due_at__lte=Now()).exists()
    if still_due:
        expire(hold, subject)
    return still_due


@engine_transaction
def expire(hold: Hold, subject: Subject) -> Hold:
    """End a locked hold as its row had said that it would end."""
    Hold.objects.filter(pk=hold.pk, state=HoldState.OPEN).update(
        state=HoldState.EXPIRED,
        answer=decisions.expiry_answer(hold),
        answered_by_name="the due time",
        answered_at=Now(),
        closed_reason="Nobody answered in time.",
        revision=F("revision") + 1,
    )
    hold.refresh_from_db()
    closing.closed(closing.sweeper_of(hold), hold, subject, "hold.expired")
    return hold


@engine_transaction
def discard_visit_holds(chain: Chain, visit_id: int, reason: str, *, branches: Collection[int] | None = None) -> int:
    """Close what a visit still asks, or only these branches of it, with the reason; the caller holds the run's lock."""
    taking(Rank.HOLD)
    reason = clean_text(reason)
    open_holds = Hold.objects.filter(visit=visit_id, state=HoldState.OPEN)
    if branches is not None:
        open_holds = open_holds.filter(branch__in=branches)
    told = open_holds.only("board", "visit", "prompt")  # most visits ask nothing when they are left
    closed = list(told.select_for_update().order_by("pk"))
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

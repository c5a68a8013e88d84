"""Answers and dismissals: one conditional write decides, and the first wins (spec: 04 section 2).

The due time is tested in the write by the database's clock, so it does not matter who comes first.
"""

from __future__ import annotations

from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from boards import errors
from boards.actors import Chain
from boards.locks import engine_transaction
from boards.models import Hold
from boards.people import closing, decisions, expiring, settling, votes
from boards.people.words import closed_words
from boards.states import HoldState
from boards.tasks import cleaning


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

    What follows from it lies ahead by as long as the member lets answers settle. Raises NotFound (not there, or not
    theirs to see), Forbidden, InvalidInput, DraftChanged, AlreadyAnswered (with who, what and when in words).
    """
    seen = closing.visible(chain, hold_id, "holds.answer")
    closing.refuse_the_asker(chain, seen)
    key = cleaning.checked_text(idempotency_key, "idempotency_key", cleaning.MAX_KEY)
    answer = decisions.checked_answer(seen, choice, text, values or {})
    if seen.kind in decisions.BOUND and shown_hash != seen.draft_hash:
        raise errors.DraftChanged
    hold, expired = _answer(chain, hold_id, answer, shown_hash, key)
    if expired:
        raise closing.too_late(hold)
    return hold


@engine_transaction
def _answer(
    chain: Chain, hold_id: int, answer: dict[str, Any], shown_hash: str, idempotency_key: str
) -> tuple[Hold, bool]:
    """The one conditional write; (hold, True) where the due time had passed and the expiry was done instead."""
    hold, subject = closing.lock(hold_id)
    if hold.state != HoldState.OPEN:
        if idempotency_key and idempotency_key == hold.answer_key and _same(chain, hold, answer):
            return hold, False
        raise errors.AlreadyAnswered(closed_words(hold), hold=hold)
    closing.refuse_ended(hold, subject)
    if hold.kind in decisions.BOUND and shown_hash != hold.draft_hash:
        raise errors.DraftChanged
    if hold.quorum is not None and closing.in_time(hold).exists():
        decided = votes.cast(chain, hold, answer)
        if decided is None:
            return hold, False
        answer = decided
    landed = closing.in_time(hold).update(
        state=HoldState.ANSWERED,
        answer=answer,
        answer_key=idempotency_key,
        answered_by=chain.user_id,
        answered_by_name=chain.name,
        answered_at=Now(),
        settles_at=settling.until(chain, hold),
        revision=F("revision") + 1,
    )
    if not landed:
        return expiring.expire(hold, subject), True
    hold.refresh_from_db()
    closing.closed(chain, hold, subject, "hold.answered")
    return hold, False


def _same(chain: Chain, hold: Hold, answer: dict[str, Any]) -> bool:
    """Whether it was answered so. Where votes decided, the answer that stands is what all of them came to, so the
    caller's own last vote is compared.
    """
    if hold.quorum is None:
        return hold.answer == answer
    vote = hold.votes.filter(user=chain.user_id).order_by("-pk").first()
    return vote is not None and (vote.choice, vote.note) == (answer["choice"], answer.get("text", ""))


def dismiss_hold(chain: Chain, hold_id: int, reason: str = "") -> Hold:
    """End one question without its task: the run goes on and is told that nobody answers.

    Past its due time it expires instead, as if the sweeper had come first, and AlreadyAnswered says so.
    """
    closing.refuse_the_asker(chain, closing.visible(chain, hold_id, "holds.dismiss"))
    words = cleaning.checked_text(reason, "reason", cleaning.MAX_REASON)
    hold, expired = _dismiss(chain, hold_id, words or "Dismissed.")
    if expired:
        raise closing.too_late(hold)
    return hold


@engine_transaction
def _dismiss(chain: Chain, hold_id: int, reason: str) -> tuple[Hold, bool]:
    hold, subject = closing.lock(hold_id)
    if hold.state != HoldState.OPEN:
        raise errors.AlreadyAnswered(closed_words(hold), hold=hold)
    closing.refuse_ended(hold, subject)
    if hold.source not in {Hold.Source.SUSPENSION, Hold.Source.WORKER}:
        raise errors.Forbidden("Only a worker's question can be dismissed.")
    landed = closing.in_time(hold).update(
        state=HoldState.DISCARDED,
        answered_by=chain.user_id,
        answered_by_name=chain.name,
        answered_at=Now(),
        closed_reason=reason,
        revision=F("revision") + 1,
    )
    if not landed:
        return expiring.expire(hold, subject), True
    hold.refresh_from_db()
    closing.closed(chain, hold, subject, "hold.discarded")
    return hold, False

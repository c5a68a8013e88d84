"""Marks what only wants to be read in *Needs you* as seen by one member (spec: 04 section 3.6)."""

from __future__ import annotations

from boards import errors, live_notices, policy
from boards.actors import Chain
from boards.models import Member, Seen

MAX_KEY = 120


def mark_seen(chain: Chain, key: str) -> None:
    """The row of that key waits on this member no more. Seeing decides nothing and is no event."""
    policy.require(chain, "boards.read", chain.space_id)
    if not 1 <= len(key) <= MAX_KEY:
        raise errors.InvalidInput("That is no row of this list.", field="key")
    member = Member.objects.filter(space=chain.space_id, user=chain.user_id).first()
    if member is None:
        raise errors.NotFound("There is no such row here.")
    _, fresh = Seen.objects.get_or_create(member=member, key=key)
    if fresh:
        live_notices.changed(None, user_id=member.user_id)  # this member's other pages count it no more either

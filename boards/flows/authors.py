"""For whom a schedule or a webhook acts: the member who saved it last, for as long as they have the right to.

Owns that question alone. What is refused here stops the schedule or the webhook, and its page says why.
"""

from __future__ import annotations

from typing import Final

from boards import actors, policy
from boards.actors import Chain, Hop
from boards.errors import Forbidden
from boards.models import Flow, Member

STARTS: Final = "starts"  # the service's name in the manifest of `boards.policy`


def acting_for(author_id: int | None, flow: Flow, action: str, name: str) -> Chain:
    """The author's chain with the service behind it; `name`: "schedule" or "webhook". Raises Forbidden in words."""
    member = (
        Member.objects.filter(space=flow.space_id, user=author_id or 0, user__is_active=True)
        .select_related("user", "space")
        .first()
    )
    if member is None:
        raise Forbidden(
            f"Whoever saved this {name} is no member of the space any more. Resume it, and it acts for you instead."
        )
    chain = actors.person(member)
    if not policy.allowed(chain, action):
        raise Forbidden(
            f"{chain.name} saved this {name} and may not do this any more ({action}). "
            "Resume it, and it acts for you instead."
        )
    return chain.then(Hop("service", name, STARTS))

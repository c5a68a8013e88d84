"""Revoking a key: from that moment on every call with it is refused."""

from __future__ import annotations

from django.db.models.functions import Now

from boards import errors, policy
from boards.actors import Chain
from boards.event_log import Entry, record
from boards.keys.making import described
from boards.locks import engine_transaction
from boards.models import AgentKey, Role


def revoke(chain: Chain, key: AgentKey) -> bool:
    """Revoke one's own key, or as an operator anybody's in the space; False where it was revoked already."""
    policy.require(chain, "keys.manage", chain.space_id)
    if key.member.space_id != chain.space_id:
        raise errors.NotFound("There is no such key.")
    operates = chain.acting.role == Role.OPERATOR
    if chain.acting.kind != "person" or (key.member.user_id != chain.user_id and not operates):
        raise errors.NotFound("There is no such key.")
    return _revoke(chain, key.pk)


@engine_transaction
def _revoke(chain: Chain, pk: int) -> bool:
    landed = AgentKey.objects.filter(pk=pk, revoked_at=None).update(
        revoked_at=Now(), revoked_by_name=chain.name, old_hash=None, old_until=None
    )
    if landed:
        record(Entry("key.revoked", chain, data=described(AgentKey.objects.get(pk=pk))))
    return bool(landed)

"""Letting a key in: which one it is, whether it still counts, and the chain of its agent.

The secret is never logged and stands in no message; a report of an error does not show it either.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db.models import Q
from django.db.models.functions import Now
from django.views.decorators.debug import sensitive_variables

from boards import actors
from boards.actors import Chain
from boards.keys.secrets import MARK, hash_of
from boards.models import AgentKey

# `last_used_at` is for people: writing it at each call would make every read a write.
USED_EVERY: Final = timedelta(minutes=5)
_LONGEST: Final = 200


def looks_like_key(text: str) -> bool:
    return text.startswith(MARK)


@sensitive_variables("secret", "digest")
def find(secret: str) -> AgentKey | None:
    """The key that has this secret, where it counts: not revoked, not past its time, of one who may sign in."""
    if not looks_like_key(secret) or len(secret) > _LONGEST:
        return None
    digest = hash_of(secret)
    counts = Q(secret_hash=digest) | Q(old_hash=digest, old_until__gt=Now())
    in_time = Q(expires_at=None) | Q(expires_at__gt=Now())
    found = AgentKey.objects.filter(counts, in_time, revoked_at=None, member__user__is_active=True)
    key = found.select_related("member__space", "member__user").prefetch_related("boards").first()
    if key is not None:
        _note_use(key)
    return key


def chain_of(key: AgentKey) -> Chain:
    """Person → agent, in the key's own session."""
    return actors.by_key(key)


def _note_use(key: AgentKey) -> None:
    lately = Q(last_used_at=None) | Q(last_used_at__lt=Now() - USED_EVERY)
    AgentKey.objects.filter(lately, pk=key.pk).update(last_used_at=Now())

"""Whether a key still stands, asked inside the write that it is shown for (spec: 06 section 6).

The key's row is kept as it is for the rest of the transaction, beside any number of other writes: a revoke waits for
those that came before it, and once it has answered none is recorded any more. Only the row of an idempotency key is
locked before it.
"""

from __future__ import annotations

from typing import Final

from django.db import connection

from boards import errors


def require_standing(key_id: int) -> None:
    """Raises KeyRefused where the key was revoked, or its time is over. Called first in a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_STANDS, [key_id])
        if cursor.fetchone() is None:
            raise errors.KeyRefused


_STANDS: Final = """
    select 1 from boards_agentkey k
     where k.id = %s and k.revoked_at is null and (k.expires_at is null or k.expires_at > statement_timestamp())
       for share"""

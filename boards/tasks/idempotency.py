"""Idempotency keys: a repeat answers the first result, and the same key with another body is refused (spec: 01, 3).

The row is inserted first in the verb's own transaction, so that a twin waits and then reads. It holds the body's hash
and the ids of the result; a refusal leaves none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from boards import errors
from boards.actors import Chain
from boards.locks import Rank, engine_transaction, taking
from boards.models import IdempotencyKey, Task
from boards.tasks import cleaning
from boards.tasks.types import Recorded, TaskWriteOutcome


def caller_of(chain: Chain) -> str:
    """Whose key it is: an agent's name says nothing across spaces, nor whom it acts for."""
    name = "/".join([f"space:{chain.space_id}", *(f"{hop.kind}:{hop.id}" for hop in chain.hops)])
    return name if len(name) <= 200 else hashlib.sha256(name.encode()).hexdigest()


def own_key(chain: Chain, key: str) -> str:
    """The key as a row keeps it that has no place for its caller: that of another caller is never the same."""
    return hashlib.sha256(f"{caller_of(chain)} {key}".encode("utf-8", "replace")).hexdigest() if key else ""


def row_of(chain: Chain, verb: str, key: str, digest: str) -> IdempotencyKey | None:
    """The row of this key, with its `result` where it was used before; None without a key. Raises KeyReused."""
    if not key:
        return None
    taking(Rank.IDEMPOTENCY)
    row, made = IdempotencyKey.objects.get_or_create(
        caller=caller_of(chain), verb=verb, key=key, defaults={"body_hash": digest}
    )
    if not made and row.body_hash != digest:
        raise errors.KeyReused
    return row


def once(
    chain: Chain, verb: str, key: str, task: Task, told: Any, act: Callable[[], TaskWriteOutcome]
) -> TaskWriteOutcome:
    """`act` on the task, once under this key: a repeat answers what the first one did and the status that is now.

    `told`: what else the caller said. What declined leaves no row, as a refusal; so `act` may be tried again.
    """
    key = cleaning.checked_text(key, "idempotency_key", cleaning.MAX_KEY)
    if not key:
        return act()
    body = json.dumps([task.pk, told], sort_keys=True, default=str)
    try:
        return _once(chain, verb, key, task, hashlib.sha256(body.encode("utf-8", "replace")).hexdigest(), act)
    except _DeclinedError as declined:
        return declined.outcome


@engine_transaction
def _once(
    chain: Chain, verb: str, key: str, task: Task, digest: str, act: Callable[[], TaskWriteOutcome]
) -> TaskWriteOutcome:
    row = row_of(chain, verb, key, digest)
    assert row is not None  # there is a key
    if row.result is not None:
        status = Task.objects.values_list("status", flat=True).get(pk=task.pk)
        return TaskWriteOutcome(Recorded(row.result["result"]), status)
    outcome = act()
    if not outcome.landed:
        raise _DeclinedError(outcome)
    IdempotencyKey.objects.filter(pk=row.pk).update(result={"result": outcome.result.value})
    return outcome


class _DeclinedError(Exception):
    """Takes the row of the key back with the transaction."""

    def __init__(self, outcome: TaskWriteOutcome) -> None:
        self.outcome = outcome

"""What an outside worker holds: its claim, and the ticket behind a token that it shows (spec: 02, 4.1; 06, 3).

A token that does not hold is answered like one that does not exist. Nothing is written here but the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from django.views.decorators.debug import sensitive_variables

from boards import errors, keys, policy
from boards.actors import Chain
from boards.models import Attempt, Board, Task
from boards.stored_text import clean_text
from boards.tasks import Claimed, Reason, Ticket, cleaning, outside, partitions
from boards.workers import briefing
from boards.workers.protocol import TaskFacts


@dataclass(frozen=True)
class Held:
    """What a token stands for: the ticket, and its attempt with the task as it was read."""

    caller: Chain
    ticket: Ticket
    attempt: Attempt

    @property
    def task(self) -> Task:
        return self.attempt.task

    @property
    def key_id(self) -> int:
        return self.caller.key_id or 0

    @property
    def who(self) -> str:
        """The name that the worker acts under."""
        return self.attempt.assignee or self.caller.acting.name

    @cached_property
    def chain(self) -> Chain:
        """Person → agent by its key → the worker, in the session of its run, with what the claim lends it."""
        return replace(outside.worker_chain(self.caller, self.attempt.assignee), session_id=self.attempt.session_id)


@dataclass(frozen=True, slots=True)
class Given:
    """One task as its worker gets it."""

    token: str
    task: Task
    facts: TaskFacts
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key's worker claims, and under which name its host stands on the pages."""

    board: Board
    where: outside.Place
    host: str


def may_work(caller: Chain) -> int:
    """The id of the caller's key. Raises Forbidden, for all who show none, and before anything is looked up."""
    policy.require(caller, "tasks.claim", caller.space_id)
    if caller.key_id is None:
        raise errors.Forbidden("An outside worker shows a key that has the scope work. Make one.")
    return caller.key_id


def place_for(caller: Chain, board: Board, assignees: Sequence[str], host: str) -> Place:
    """Raises as `boards.tasks.outside.place_for`, and InvalidInput."""
    where = outside.place_for(caller, board, [clean_text(name) for name in assignees])
    return Place(board, where, cleaning.checked_text(host, "host", outside.MAX_HOST).strip())


def claim(caller: Chain, place: Place, limit: int, lease_ms: int | None, idempotency_key: str) -> list[Given]:
    """Take up to `limit` tasks, each with its token; empty where there is nothing to take now."""
    key_id = caller.key_id or 0
    by = {"key": key_id, "name": caller.acting.name, "host": place.host}
    terms = outside.Terms(limit, lease_ms, by, idempotency_key)
    got = outside.claim_outside(caller, place.where, terms, first=lambda: keys.require_standing(key_id))
    return given(got, key_id)


def claimed_before(caller: Chain, idempotency_key: str) -> bool:
    """Whether a claim under this key took something: a repeat has nothing to wait for."""
    return outside.claimed_before(caller, idempotency_key)


@sensitive_variables()
def held(caller: Chain, token: str, named: str = "") -> Held:
    """What this caller holds by the token. `named`: the task that the call is about, where it names one.

    Raises Forbidden, TicketRefused, TaskWriteDeclined for another task than the one that is held.
    """
    ticket, attempt = keys.unsealed(token, may_work(caller))
    if attempt.task.board.space_id != caller.space_id or not partitions.reaches(caller, attempt.task):
        raise errors.TicketRefused
    if named and named != ticket.task_id:
        words = f'You hold task "{ticket.task_id}", not "{named[: cleaning.MAX_KEY]}".'
        raise errors.TaskWriteDeclined(words, reason=Reason.NOT_MY_TASK.value)
    return Held(caller, ticket, attempt)


def given(claimed: Sequence[Claimed], key_id: int) -> list[Given]:
    """What the workers are told: a few queries for the whole batch."""
    if not claimed:
        return []
    results, holds = briefing.beside([one.task.pk for one in claimed])
    return [
        Given(
            keys.sealed(one.ticket, key_id),
            one.task,
            briefing.facts_of(one.task, one.ticket, results.get(one.task.pk, {}), holds.get(one.task.pk, ())),
            one.resumed,
        )
        for one in claimed
    ]

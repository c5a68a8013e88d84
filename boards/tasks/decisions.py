"""What each verb does to a row, decided from the row, the options and the database's clock; pure (spec: 01-02).

Nothing here reads or writes a database. The engine locks the row, asks here, then writes once with the from-state in
the write. The order in which declines are resolved stands in one function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from boards.errors import IllegalTaskTransition
from boards.models import Task
from boards.states import ALREADY, TERMINAL, TRANSITIONS, Status, Verb
from boards.tasks.types import Reason, Recorded, TaskWriteOutcome, Ticket

DEFAULT_MAX_ABANDONMENTS = 3
SUSPENDED: Final = "suspended"
FILED: Final = "filed"


def lapsed(task: Task, now: datetime) -> bool:
    """A lease is present and has run out; a missing lease is not a lapsed one."""
    return task.lease_until is not None and task.lease_until <= now


def suspended(task: Task) -> bool:
    return task.kept_open_by == SUSPENDED


def waits_for_filed(task: Task) -> bool:
    """Handed in, and kept open by the tasks that it filed: its turn is over, and nobody takes it up again."""
    return task.kept_open_by == FILED


def is_claimable(task: Task, now: datetime) -> bool:
    """Whether a worker may take the row now (spec: 02 section 1.1). There is no "tries left" test here."""
    ready = task.status == Status.PENDING
    lost = task.status == Status.IN_PROGRESS and lapsed(task, now)
    resumable = suspended(task) and task.resume_ready_at is not None and task.resume_ready_at <= now
    waited = task.not_before is None or task.not_before <= now
    return (ready or lost or resumable) and task.unmet_deps == 0 and task.open_holds == 0 and waited


def is_spent(task: Task, now: datetime) -> bool:
    """Lapsed once too often: the row is settled as abandoned instead of handed out (spec: 02 section 1.2)."""
    return task.status == Status.IN_PROGRESS and lapsed(task, now) and task.abandonments >= DEFAULT_MAX_ABANDONMENTS


def names_row(ticket: Ticket, task: Task) -> bool:
    """Whether the ticket was minted for this row and not for another, or for one of the same id before it."""
    return (
        ticket.task_key == task.pk
        and ticket.board_id == task.board_id
        and ticket.partition == task.partition
        and ticket.task_id == task.public_id
        and ticket.incarnation_id == task.incarnation_id
        and ticket.created_at == task.created_at
    )


def owns_row(ticket: Ticket, task: Task, now: datetime, *, adopts: bool = False) -> bool:
    """Whether the ticket is of the current grant, with a lease that has not run out (a kept-open row has none).

    `adopts`: one that has run out counts too, as long as nobody has taken the row.
    """
    return (
        ticket.attempt == task.attempts
        and ticket.grant_no == task.grant_no
        and task.status == Status.IN_PROGRESS
        and (adopts or not lapsed(task, now))
    )


def lost(ticket: Ticket, task: Task, now: datetime, *, adopts: bool = False) -> TaskWriteOutcome | None:
    """Why a ticket no longer writes to this row, in the order of the reasons; None where it does."""
    if task.status in TERMINAL:
        return _declined(task, Reason.TERMINAL, f"The task is {Status(task.status).label} already.")
    if not names_row(ticket, task):
        return _declined(task, Reason.NOT_MY_TASK, "This claim is for another task.")
    if not owns_row(ticket, task, now, adopts=adopts):
        return _declined(task, Reason.LOST_CLAIM, "The claim has moved on, or its lease ran out. Stop working on it.")
    return None


@dataclass(frozen=True, slots=True)
class Options:
    """What softens a write: `claim` fences it, `if_allowed` declines where it would raise, `advisory` never raises."""

    claim: Ticket | None = None
    if_allowed: bool = False
    advisory: bool = False
    if_lapsed: bool = False  # only while the lease has run out
    if_spent: bool = False  # and the allowance of lost workers is used up


def decline(task: Task, verb: Verb, options: Options, now: datetime) -> TaskWriteOutcome | None:
    """The refusal of `verb` on this row, or None where it may go ahead. The reasons' order is the spec's (02, 5).

    Raises IllegalTaskTransition for a move that the table refuses and no option softens.
    """
    status, ticket = Status(task.status), options.claim
    allowed = status in TRANSITIONS[verb]
    softened = options.if_allowed or options.advisory or ticket is not None
    if status in TERMINAL and not allowed:
        if _is_repeat(verb, status) and not options.if_allowed and verb is not Verb.CANCEL and ticket is None:
            return TaskWriteOutcome(Recorded.UNCHANGED, status)
        if softened:
            return _declined(task, Reason.TERMINAL, _ended_words(task) or f"The task is {status.label} already.")
        raise IllegalTaskTransition(task.public_id, status, _target(verb), _ended_words(task))
    if ticket is not None and not names_row(ticket, task):
        return _declined(task, Reason.NOT_MY_TASK, "This claim is for another task.")
    if not allowed:
        if _is_repeat(verb, status):
            return TaskWriteOutcome(Recorded.UNCHANGED, status)
        if ticket is not None and not owns_row(ticket, task, now) and not options.if_allowed:
            return _declined(task, Reason.LOST_CLAIM, "The claim has moved on.")
        if softened:
            return _declined(task, Reason.DISALLOWED, f"A task that is {status.label} cannot do that.")
        raise IllegalTaskTransition(task.public_id, status, _target(verb))
    if ticket is not None and verb is not Verb.COMPLETE and waits_for_filed(task):
        return handed_in(task)
    if ticket is not None and not owns_row(ticket, task, now):
        return _declined(task, Reason.LOST_CLAIM, "The claim has moved on, or its lease ran out. Stop working on it.")
    if (options.if_lapsed and not lapsed(task, now)) or (options.if_spent and not is_spent(task, now)):
        return _declined(task, Reason.LOST_CLAIM, "Its worker still renews the lease.")
    return None


def _ended_words(task: Task) -> str:
    return "The due time passed, so the task was withdrawn. File it again as a new task." if task.withdrawn else ""


def _is_repeat(verb: Verb, status: Status) -> bool:
    return status in ALREADY.get(verb, frozenset())


def _target(verb: Verb) -> Status:
    return sorted(next(iter(TRANSITIONS[verb].values())))[0]


def _declined(task: Task, reason: Reason, sentence: str) -> TaskWriteOutcome:
    return TaskWriteOutcome(Recorded.DECLINED, task.status, reason, sentence)


def failure_is_soft(task: Task) -> bool:
    """Whether a try is left after the failure that is being recorded (spec: 01, "Failures and tries" 1)."""
    return task.max_attempts is not None and task.failures + 1 < task.max_attempts


def tries_after_retry(task: Task) -> int | None:
    """`max_attempts` after a retry: a task with no try left gets one more, otherwise it stays."""
    return None if task.max_attempts is None else max(task.max_attempts, task.failures + 1)


def completes_to(task: Task) -> Status:
    """Where a hand-in leads: done, or to the checker."""
    return Status.COMPLETED if task.checker == "none" else Status.NEEDS_CHECK


def handed_in(task: Task) -> TaskWriteOutcome:
    """The decline of what a worker says after its hand-in, while the task waits for what it filed: the result stays."""
    return _declined(
        task, Reason.DISALLOWED, "It was handed in, and only waits for the tasks it filed. There is nothing more to do."
    )


class HandIn(StrEnum):
    """What a hand-in does to a task that may be completed."""

    END = "end"
    KEEP = "keep"  # it stays open, with what was handed in
    NOTHING = "nothing"


def hand_in(task: Task, *, looked_again: bool, keeping: bool) -> HandIn:
    """Whether a result ends its task now (spec: 03 section 4.5). `keeping`: a task that it filed holds it.

    `looked_again`: nobody hands in; a filed task has ended, and what was handed in before may count now. What was
    handed in first stays: a repeat of it changes nothing, and neither does a look at a task that is not kept.
    """
    if waits_for_filed(task) is not looked_again or (looked_again and keeping):
        return HandIn.NOTHING
    return HandIn.KEEP if keeping else HandIn.END


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What decides whether a pending card starts; the names are for people."""

    waits_for: Sequence[tuple[str, str]] = ()  # (label, status) of dependencies that are not completed
    asks: Sequence[str] = ()
    chain_busy_with: str = ""  # the task of its chain that is being worked
    board_paused: bool = False
    person: str = ""
    served: bool = True
    outside: bool = False  # its worker takes it by itself, from elsewhere
    free: bool = True
    busy_with: str = ""
    not_before: datetime | None = None


def why_not_starting(task: Task, facts: StartFacts, now: datetime) -> list[str]:
    """Sentences that say why a pending card does not start, the strongest first; empty where it starts next."""
    if task.status == Status.HELD:
        return ["Held until somebody releases it."]
    if task.status != Status.PENDING:
        return []
    reasons = [_dependency_words(label, status) for label, status in facts.waits_for]
    if task.open_holds:
        reasons.append(f"Waits for an answer: {facts.asks[0]}" if facts.asks else "Waits for an answer.")
    if facts.chain_busy_with:
        reasons.append(f"Waits for {facts.chain_busy_with}: a task and its follow-ups run one at a time.")
    if facts.board_paused:
        reasons.append("The board is paused.")
    if task.not_before is not None and task.not_before > now:
        reasons.append(f"Next try at {task.not_before:%H:%M:%S} UTC.")
    if reasons:
        return reasons
    if facts.person:
        return [f"Waits for {facts.person} to start it."]
    if facts.outside and facts.free:
        named = f" as “{task.assignee}”" if task.assignee else ""
        return [f"Waits for an outside worker to take it{named}."]
    if not facts.served:
        who = f"“{task.assignee}”" if task.assignee else "tasks without an assignee"
        return [f"No running drain serves {who}. Start one, or assign it to somebody else."]
    if not facts.free:
        return [f"{task.assignee or 'The worker'} is busy{' with ' + facts.busy_with if facts.busy_with else ''}."]
    return []


def _dependency_words(label: str, status: str) -> str:
    if status in {Status.ERRORED, Status.CANCELLED}:
        return f"“{label}” ended without completing. Retry it, start anyway, or skip this."
    return f"Waits for “{label}”."

"""The shapes that the task engine takes and answers: tickets, options, outcomes (spec: 02 sections 4-5)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from boards.actors import Chain
from boards.models import Board, Task


class Recorded(StrEnum):
    RECORDED = "recorded"
    UNCHANGED = "unchanged"
    DECLINED = "declined"


class Reason(StrEnum):
    """Why a write was declined, in the order in which reasons are resolved."""

    IMMUTABLE_ASSIGNEE = "immutable-assignee"
    TERMINAL = "terminal"
    NOT_MY_TASK = "not-my-task"
    DISALLOWED = "disallowed"
    LOST_CLAIM = "lost-claim"
    SETTLING = "settling"
    DEPENDENCY_ENDED = "dependency-ended"
    RETRY_BUDGET = "retry-budget"


@dataclass(frozen=True, slots=True)
class TaskWriteOutcome:
    """What a mutating verb did, and the status that was seen inside the write (after it, when it landed)."""

    result: Recorded
    status: str
    reason: Reason | None = None
    sentence: str = ""

    @property
    def landed(self) -> bool:
        """Whether the row is now as the caller asked."""
        return self.result is not Recorded.DECLINED


@dataclass(frozen=True, slots=True)
class Ticket:
    """The proof that a write comes from the current grant; minted from the row that a claim or a resume returned."""

    board_id: int
    partition: str
    task_key: int
    attempt_key: int
    task_id: str
    attempt: int
    grant_no: int
    created_at: datetime
    incarnation_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Claimed:
    """One claimed or resumed row with its ticket. `resumed`: same attempt, new grant. `bare`: it is known to have
    neither dependencies nor questions.
    """

    task: Task
    ticket: Ticket
    resumed: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class RunLink:
    """Names the run that works a grant: its session, its request, and who acts in it."""

    chain: Chain
    ticket: Ticket
    session_id: uuid.UUID | None
    request_id: str


@dataclass(frozen=True, slots=True)
class Start:
    """What the start of a claimed row leaves: under whose name it is worked, and the first line of its transcript."""

    who: str
    words: str


# Called with what a claim took; answers the start of each, in the same order. Either in the claim's transaction, where
# what it raises undoes the claim and it may be called again, or right after the commit where `first_words` said all.
Begin = Callable[[Sequence[Claimed]], Sequence[Start]]
# Who acts for an assignee in a space.
Acts = Callable[[str, int], Chain]
# Runs the taking of a claim in an engine transaction of its own, and answers what is handed out; before the taking it
# may lock only what stands to the left of rosters.
Within = Callable[[Callable[[], list[Claimed]]], list[Claimed]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a claimer has room for on one board: free slots per assignee name ("" = tasks without one).

    `limit` bounds all of them together (None: nothing beyond the claim's own limit does). `board`: as the claimer has
    read it; None leaves the reading to the claim. `partition`: whoever claims has to do with that one alone (None: with
    all of them); a claim that names one names no other board or partition, and begins nothing.
    """

    board_id: int
    slots: dict[str, int] = field(default_factory=dict)
    limit: int | None = None
    board: Board | None = None
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class Filing:
    """What a filer gives for one task (spec: 01 section 3). `deps` are public ids, of this batch or the board.

    `follow_up_of`: the public id of any task of a chain; such a filing takes no `id` and no `assignee`. `stage` and
    `required` are set for stage tasks of a flow, and counted nowhere else.
    """

    goal: str
    id: str = ""
    title: str = ""
    context: str = ""
    input: dict[str, Any] = field(default_factory=dict)
    labels: Sequence[str] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    priority: int = 0
    due_at: datetime | None = None
    deps: Sequence[str] = ()
    assignee: str = ""
    max_attempts: int | None = None
    checker: str = ""
    follow_up_of: str = ""
    held: bool = False
    holds: Sequence[HoldFiling] = ()
    stage: str = ""
    required: bool | None = None


@dataclass(frozen=True, slots=True)
class HoldFiling:
    """A question or confirm to be answered before the task can start. `options`: {"value", "label", "description"}."""

    kind: str
    prompt: str
    title: str = ""
    context: str = ""
    options: Sequence[dict[str, str]] = ()
    due_at: datetime | None = None
    default: str = ""

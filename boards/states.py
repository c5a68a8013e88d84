"""The status words and the one transition table of a task; pure data and pure functions.

Every surface (pages, drain, sweeper, admin, flows) asks this module which moves exist (spec: 00 "Status words",
01 section 2). Nothing here reads a database.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from django.db import models


class Status(models.TextChoices):
    """Stored value and the label people read; they never differ anywhere."""

    PENDING = "pending", "Ready"
    HELD = "held", "Held"
    IN_PROGRESS = "in_progress", "Working"
    NEEDS_CHECK = "needs_check", "Needs check"
    COMPLETED = "completed", "Done"
    ERRORED = "errored", "Stuck"
    CANCELLED = "cancelled", "Skipped"


TERMINAL: Final = frozenset({Status.COMPLETED, Status.ERRORED, Status.CANCELLED})
LIVE: Final = frozenset(Status) - TERMINAL


class Verb(StrEnum):
    """The names of the transitions; each is also the engine function, the event's word and the button."""

    FILE = "file"
    HOLD = "hold"
    RELEASE = "release"
    CLAIM = "claim"
    RESUME = "resume"
    ABANDON = "abandon"
    RECLAIM = "reclaim"
    HAND_BACK = "hand_back"
    COMPLETE = "complete"
    ACCEPT = "accept"
    SEND_BACK = "send_back"
    FAIL = "fail"
    CANCEL = "cancel"
    SKIP = "skip"
    RETRY = "retry"
    FLOW_DEADLINE = "flow_deadline"


P, H, W, N = Status.PENDING, Status.HELD, Status.IN_PROGRESS, Status.NEEDS_CHECK
D, E, C = Status.COMPLETED, Status.ERRORED, Status.CANCELLED

# verb -> from-status -> the statuses that the move may lead to (which one is the engine's decision).
TRANSITIONS: Final[Mapping[Verb, Mapping[Status, frozenset[Status]]]] = {
    Verb.HOLD: {P: frozenset({H})},
    Verb.RELEASE: {H: frozenset({P})},
    Verb.CLAIM: {P: frozenset({W}), W: frozenset({W})},
    Verb.RESUME: {W: frozenset({W})},
    Verb.ABANDON: {W: frozenset({E})},
    Verb.RECLAIM: {W: frozenset({P})},
    Verb.HAND_BACK: {W: frozenset({P})},
    Verb.COMPLETE: {W: frozenset({D, N})},
    Verb.ACCEPT: {N: frozenset({D})},
    Verb.SEND_BACK: {N: frozenset({P, E})},
    Verb.FAIL: {W: frozenset({P, E})},
    Verb.CANCEL: {P: frozenset({C}), H: frozenset({C}), W: frozenset({C}), N: frozenset({C})},
    Verb.SKIP: {E: frozenset({C}), P: frozenset({C})},
    Verb.RETRY: {E: frozenset({P}), C: frozenset({P})},
    Verb.FLOW_DEADLINE: {s: frozenset({C}) for s in (P, H, W, N, E)},
}

# Where a repeat of the same move finds the row already: that is `unchanged`, not an illegal move (rule 2).
ALREADY: Final[Mapping[Verb, frozenset[Status]]] = {
    Verb.HOLD: frozenset({H}),
    Verb.RELEASE: frozenset({P}),
    Verb.COMPLETE: frozenset({D}),
    Verb.ACCEPT: frozenset({D}),
    Verb.FAIL: frozenset({E}),
    Verb.CANCEL: frozenset({C}),
    Verb.SKIP: frozenset({C}),
    Verb.FLOW_DEADLINE: frozenset({C}),
}


def may(verb: Verb, status: str) -> bool:
    """Whether `verb` leads anywhere from `status`."""
    return Status(status) in TRANSITIONS[verb]


def matrix() -> str:
    """The table as markdown, a verb a row; `docs/architecture.md` prints it."""
    head = ["| verb |", *(f" {status.label} |" for status in Status)]
    rows = [f"| `{verb}` |" + "".join(f" {_cell(verb, status)} |" for status in Status) for verb in TRANSITIONS]
    return "\n".join(["".join(head), "|---" * (len(Status) + 1) + "|", *rows])


def _cell(verb: Verb, status: Status) -> str:
    leads_to = TRANSITIONS[verb].get(status, frozenset())
    if leads_to:
        return " or ".join(f"**{one.label}**" for one in Status if one in leads_to)
    return "unchanged" if status in ALREADY.get(verb, frozenset()) else "final" if status in TERMINAL else "refused"


class HoldKind(models.TextChoices):
    QUESTION = "question", "Question"
    CONFIRM = "confirm", "Confirm"
    APPROVAL = "approval", "Approval"
    REVIEW = "review", "Review"
    INPUT = "input", "Input"
    GATE = "gate", "Gate draft"


class HoldState(models.TextChoices):
    OPEN = "open", "Open"
    ANSWERED = "answered", "Answered"
    EXPIRED = "expired", "Past its due time"
    DISCARDED = "discarded", "Discarded"


class RunStatus(models.TextChoices):
    ACTIVE = "active", "Active"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class Phase(models.TextChoices):
    """Where a visit stands (spec: 05 section 2.10)."""

    ENTERED = "entered", "Entered"
    WORKING = "working", "Working"
    WAITING = "waiting", "Waiting"
    PAUSED = "paused", "Paused"
    FAILURE = "failure", "Failure"
    LEFT = "left", "Left"


class Cause:
    """Why a turn was stopped (spec: 05 section 3.1). An argument all the way, never guessed from a state.

    Only `USER_CANCEL` may complete a step, and only a person's explicit *cancel this turn* carries it.
    """

    USER_CANCEL: Final = "user_cancel"
    QUESTION_TIMEOUT: Final = "question_timeout"
    PEER_INTERRUPT: Final = "peer_interrupt"
    PARENT_STOP: Final = "parent_stop"
    ARCHIVE: Final = "archive"
    FAILURE: Final = "failure"
    RUN_CANCEL: Final = "run_cancel"
    TEARDOWN: Final = "teardown"
    SHUTDOWN: Final = "shutdown"
    WITHDRAW: Final = "withdraw"
    CASCADE: Final = "cascade"
    JOIN: Final = "join"


CAUSES: Final = frozenset(value for name, value in vars(Cause).items() if name.isupper())

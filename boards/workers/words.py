"""The short lines that a drain prints; pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from boards.states import Status, Verb
from boards.workers.adapters import Failed
from boards.workers.runner import Run
from boards.workers.settling import Settled

Thing = TypeVar("Thing")

SHOWN_AT_ONCE: Final = 5


def started(run: Run) -> str:
    again = f" (attempt {run.ticket.attempt})" if run.ticket.attempt > 1 else ""
    verb = "goes on with" if run.claimed.resumed else "starts"
    return f"{run.who} {verb} “{run.task.label}”{again}"


def ended(one: Settled) -> str:
    run = one.run
    label = f"“{run.task.label}”"
    if one.unrecorded is not None:
        return f"{run.who} ended {label}, but the result could not be recorded ({one.unrecorded})"
    if one.outcome is not None and not one.outcome.landed:
        return f"{run.who} came too late for {label}"
    if one.verb is Verb.COMPLETE and one.outcome is not None and one.outcome.status == Status.IN_PROGRESS:
        return f"{run.who} handed in {label}, which waits for the tasks it filed"
    took = f" in {time.monotonic() - run.began:.1f} s" if run.began else ""
    error = run.ending.error.splitlines()[0][:160] if isinstance(run.ending, Failed) else ""
    endings = {
        "complete": f"finished {label}{took}",
        "fail": f"failed at {label}: {error}",
        "cancel": f"ended {label} for good",
        "hand_back": f"gave back {label}",
        "suspend": f"waits on a person with {label}",
        "nothing": f"stopped {label}",
    }
    return f"{run.who} {endings[one.verb.value]}"


def unrecorded(one: Settled) -> str:
    return f"“{one.run.task.label}” ({one.run.task.public_id}, {one.unrecorded})"


def folded(things: Sequence[Thing], line: Callable[[Thing], str], verb: str) -> list[str]:
    """The line of each of a few; of many those of the first ones, and a count."""
    if len(things) <= SHOWN_AT_ONCE:
        return [line(thing) for thing in things]
    shown = things[: SHOWN_AT_ONCE - 1]
    return [*(line(thing) for thing in shown), f"{len(things) - len(shown)} more {verb}"]

"""When several works of one step are over: the join of a `parallel`, the end of a `stage`. Pure (spec: 05, 2.11).

An outcome is the word of `Branch.outcome`, '' while the work goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

COMPLETED, FAILED, CANCELLED, WITHDRAWN, OPEN = "completed", "failed", "cancelled", "withdrawn", ""


class Joined(StrEnum):
    MET = "met"
    OPEN = "open"
    MISSED = "missed"  # it can no longer be met


def joined(rule: str | int, outcomes: Sequence[str]) -> Joined:
    """Whether enough branches completed. `rule`: "all", "any", or how many."""
    need = _needed(rule, len(outcomes))
    done, open_ones = outcomes.count(COMPLETED), outcomes.count(OPEN)
    if done >= need:
        return Joined.MET
    return Joined.OPEN if done + open_ones >= need else Joined.MISSED


def _needed(rule: str | int, count: int) -> int:
    match rule:
        case "all":
            return count
        case "any":
            return min(1, count)
    return min(int(rule), count)


class Staged(StrEnum):
    DONE = "done"
    OPEN = "open"
    FAILED = "failed"
    WAITS = "waits"  # a required one was withdrawn: it stays required, and what depends on it keeps waiting


def staged(tasks: Iterable[tuple[bool, str]]) -> Staged:
    """How a stage stands, from (required, outcome) of each of its tasks (spec: 05 section 4.5)."""
    told = list(tasks)
    required = [outcome for is_required, outcome in told if is_required]
    if FAILED in required or CANCELLED in required:
        return Staged.FAILED
    if WITHDRAWN in required:
        return Staged.WAITS
    return Staged.OPEN if any(outcome == OPEN for _, outcome in told) else Staged.DONE

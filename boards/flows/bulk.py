"""The same verb on many runs: each in a transaction of its own, with a result for each (spec: 08 section 2.1).

What one of them refuses stops none of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from boards.errors import Refusal
from boards.models import FlowRun


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of the verb for one run: `refusal` is the sentence why not, '' where it was done.

    `offer`: what may be done instead ("cancel_and_move"), or ''.
    """

    run: FlowRun
    refusal: str = ""
    offer: str = ""
    status: int = 200

    @property
    def done(self) -> bool:
        return not self.refusal


def for_each(runs: Iterable[FlowRun], verb: Callable[[FlowRun], FlowRun]) -> list[RunResult]:
    """Do `verb` to each run, in the order given."""
    return [_one(run, verb) for run in runs]


def _one(run: FlowRun, verb: Callable[[FlowRun], FlowRun]) -> RunResult:
    try:
        return RunResult(verb(run))
    except Refusal as refusal:
        return RunResult(run, refusal.sentence, str(refusal.facts.get("offer", "")), refusal.http_status)

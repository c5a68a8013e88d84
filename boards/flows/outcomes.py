"""Words that several handlers of `advance` store with an operation, and the one rule about runs that have ended."""

from __future__ import annotations

from typing import Final

from boards.models import FlowRun
from boards.states import RunStatus

OVERTAKEN: Final = "overtaken"
ENDED_RUN: Final = "ended_run"


def is_over(run: FlowRun, *, completed: bool) -> bool:
    """A failed run keeps its place: its own task, retried from its page and completed, makes it go on."""
    return run.status != RunStatus.ACTIVE and not (run.status == RunStatus.FAILED and completed)

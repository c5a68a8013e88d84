"""What a board demands of the results on it, whatever kind of worker hands them in (spec: 03 section 1)."""

from __future__ import annotations

from typing import Any

from boards import schemas
from boards.models import AgentCheck, Task


def problem(task: Task, output: Any, *, given: bool) -> str:
    """Why this result fails its attempt, as a sentence; "" where the board takes it. `given`: whether there is one, so
    that null may be it. An agent's verdict on another result is none of the results that the board speaks of.
    """
    if task.board.output_schema is None or AgentCheck.objects.filter(check_task=task.pk).exists():
        return ""
    if output is None and not given:
        return "The worker ended without result, and this board demands one."
    return schemas.mismatch(task.board.output_schema, output, "output")

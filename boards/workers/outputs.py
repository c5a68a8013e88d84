"""What a board demands of the results on it, whatever kind of worker hands them in (spec: 03 section 1). Pure."""

from __future__ import annotations

from typing import Any

from boards import schemas
from boards.models import Board


def problem(board: Board, output: Any, *, given: bool) -> str:
    """Why this result fails its attempt, as a sentence; "" where the board takes it. `given`: whether there is one, so
    that null may be it.
    """
    if board.output_schema is None:
        return ""
    if output is None and not given:
        return "The worker ended without result, and this board demands one."
    try:
        faults = schemas.faults(board.output_schema, output)
    except schemas.BadSchema as bad:
        return f"The output cannot be judged by the board's schema. {bad}"
    for fault in faults:
        place = "/".join(str(part) for part in fault.absolute_path)
        return f"The output does not match the board's schema at output/{place}: {fault.message[:500]}"
    return ""

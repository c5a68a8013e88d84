"""The typed shapes that leave the system. One constant says which fields of a task never do (spec: 01 section 1)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from boards.models import SERVER_ONLY_TASK_FIELDS, Task

_RENAMED: Final = {"public_id": "id", "board": "", "partition": "", "output_is_checkpoint": "checkpoint"}


def task_wire(task: Task, *, deps: tuple[str, ...] = (), follow_up_of: str = "") -> dict[str, Any]:
    """A task as a browser or an API client may read it: every field but the server's own, times in ISO 8601 UTC.

    `deps` and `follow_up_of` are public ids; the row itself knows only keys.
    """
    wire: dict[str, Any] = {"deps": list(deps), "follow_up_of": follow_up_of or None}
    for column in Task._meta.concrete_fields:
        if column.name in SERVER_ONLY_TASK_FIELDS or column.name in {"follow_up_of", "filed_by_task"}:
            continue
        name = _RENAMED.get(column.name, column.name)
        if name:
            wire[name] = _value(getattr(task, column.attname))
    if not wire.pop("checkpoint"):
        return wire
    return wire | {"checkpoint": True}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value

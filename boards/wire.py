"""The typed shapes that leave the system. One constant says which fields of a task never do (spec: 01 section 1)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from boards.models import SERVER_ONLY_TASK_FIELDS, Task

_RENAMED: Final = {"public_id": "id", "board": "", "partition": "", "output_is_checkpoint": "checkpoint"}


MAX_OUTPUT: Final = 20_000  # characters of a result as JSON; a longer one comes as text, cut there


def task_wire(task: Task, *, deps: tuple[str, ...] = (), follow_up_of: str = "") -> dict[str, Any]:
    """A task as a browser or an API client may read it: every field but the server's own, times in ISO 8601 UTC.

    `deps` and `follow_up_of` are public ids; the row itself knows only keys. `current` stands on a root that has one.
    """
    wire: dict[str, Any] = {"deps": list(deps), "follow_up_of": follow_up_of or None}
    if task.current is not None:
        wire["current"] = _current(task.current)
    for column in Task._meta.concrete_fields:
        if column.name in SERVER_ONLY_TASK_FIELDS or column.name in {"follow_up_of", "filed_by_task"}:
            continue
        name = _RENAMED.get(column.name, column.name)
        if name:
            wire[name] = _value(getattr(task, column.attname))
    if not wire.pop("checkpoint"):
        return wire
    return wire | {"checkpoint": True}


def _current(task: Task) -> dict[str, Any]:
    output = json.dumps(task.output, ensure_ascii=False)
    if len(output) > MAX_OUTPUT:
        return {"id": task.public_id, "output": output[:MAX_OUTPUT], "output_cut": True}
    return {"id": task.public_id, "output": task.output}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value

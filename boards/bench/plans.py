"""How a statement reads the tasks: its plan, as the database ran it, brought to scans and indexes. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connection

from boards.tasks.plain_rows import Statement

Plan = dict[str, Any]


def planned(statement: Statement) -> Plan:
    """The plan of a reading statement after it ran."""
    sql, params = statement
    with connection.cursor() as cursor:
        cursor.execute(f"explain (analyze, buffers, format json) {sql}", list(params))
        found = cursor.fetchone()[0]
    plan: Plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def scans_of_tasks(plan: Plan) -> Sequence[tuple[str, str]]:
    """The kind of each scan of tasks that ran, and its index."""
    return [
        (node["Node Type"], node.get("Index Name", ""))
        for node in _nodes(plan)
        if node["Actual Loops"] and (node.get("Relation Name") == "boards_task" or "Bitmap Index" in node["Node Type"])
        if node["Node Type"] not in {"ModifyTable", "Bitmap Heap Scan"}
    ]


def buffers(plan: Plan) -> int:
    """How many pages it looked at."""
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for part in plan.get("Plans", []):
        yield from _nodes(part)

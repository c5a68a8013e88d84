"""What the list of *Needs you* has to know of every row: enough to filter, to count and to order it (spec: 04, 3.2).

Two thousand rows may wait and fifty are shown, so a row's words are made only once it is shown. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from boards.models import Member
from boards.queries.asks import is_for
from boards.queries.read_rows import ONLY_READ
from boards.queries.read_words import read_task_row
from boards.queries.silence import due_of
from boards.queries.waiting_row import Row
from boards.queries.waiting_words import GROUP_OF, debt_group, debt_row, hold_row, run_row, task_row
from boards.states import Status

READ_ARMS = {"withdrawn": "late", "silent": "silent"}


class Light(NamedTuple):
    """As the row's own; `make` makes that row. `key` is "" where only the row knows it."""

    group: str
    mine: bool
    for_role: bool
    blocks: bool
    due_at: datetime | None
    priority: int
    since: datetime
    board_slug: str
    board_name: str
    who: str
    flow_key: str
    key: str
    number: int
    make: Callable[[], Row]


def hold_light(it: Mapping[str, Any], member: Member) -> Light:
    role = it["assignee_role"]
    return Light(
        GROUP_OF[it["kind"]],
        it["mine"],
        bool(role) and is_for(member, None, role),
        True,
        due_of(it["due_at"], it["visit_due_at"]),
        it["task__priority"] or it["run_priority"] or 0,
        it["asked_at"],
        it["board__slug"],
        it["board__name"],
        it["asker"],
        it["flow_key"] or "",
        f"hold-{it['pk']}",
        it["pk"],
        partial(hold_row, it, member),
    )


def task_light(it: Mapping[str, Any], member: Member) -> Light:
    arm = it["arm"]
    to_read = arm in READ_ARMS
    since = {
        "assigned": it["started_at"] if it["status"] == Status.IN_PROGRESS else it["created_at"],
        "stuck": it["completed_at"],
        "withdrawn": it["completed_at"],
        "lost": it["lease_until"],
    }.get(arm)
    return Light(
        READ_ARMS.get(arm, arm),
        it["mine"],
        False,
        not to_read,
        None if to_read else it["due_at"],
        it["priority"],
        since or it["updated_at"],
        it["board__slug"],
        it["board__name"],
        it["filed_by"] if arm == "assigned" else it["assignee"],
        (it["flow_key"] or "") if to_read else "",
        "",
        it["pk"],
        partial(read_task_row, it) if to_read else partial(task_row, it, member),
    )


def run_light(it: Mapping[str, Any], member: Member) -> Light:
    row = run_row(it, member)  # these are few
    return _of(row, it["pk"])


def debt_light(it: Mapping[str, Any]) -> Light:
    of_task = it["task__public_id"] is not None
    prefix = "task__board" if of_task else "run__flow__board"
    return Light(
        debt_group(it["kind"]),
        True,
        False,
        it["kind"] not in ONLY_READ,
        None,
        0,
        it["created_at"],
        it[f"{prefix}__slug"],
        it[f"{prefix}__name"],
        "",
        it["run__flow__key"] or "",
        f"debt-{it['pk']}",
        it["pk"],
        partial(debt_row, it),
    )


def _of(row: Row, number: int) -> Light:
    return Light(
        row.group,
        row.mine,
        row.for_role,
        row.blocks,
        row.due_at,
        row.priority,
        row.since,
        row.board_slug,
        row.board_name,
        row.who,
        row.flow_key,
        row.key,
        number,
        lambda: row,
    )

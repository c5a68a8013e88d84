"""What the list of *Needs you* has to know of every row: enough to filter, to count and to order it (spec: 04, 3.2).

Two thousand rows may wait and thirty are shown, so the rest of a row is looked at only once it is shown. Reads only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from boards.models import Member
from boards.queries.asks import is_for
from boards.queries.read_words import read_task_row, told_row
from boards.queries.silence import due_of
from boards.queries.statements import Statement
from boards.queries.waiting_row import Row
from boards.queries.waiting_rows import all_holds, all_tasks
from boards.queries.waiting_words import GROUP_OF, debt_row, hold_row, run_row, task_row
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


def hold_lights(member: Member) -> Iterator[Light]:
    """One query."""
    read = all_holds(member)
    pick = read.pick(
        "pk", "kind", "mine", "assignee_role", "due_at", "visit_due_at", "task__priority", "run_priority", "asked_at",
        "board__slug", "board__name", "asker", "flow_key",
    )  # fmt: skip
    for raw in read.raw():
        pk, kind, mine, role, due, visit_due, priority, run_priority, at, slug, board, asker, flow = pick(raw)
        yield Light(
            GROUP_OF[kind],
            mine,
            bool(role) and is_for(member, None, role),
            True,
            due_of(due, visit_due) if due or visit_due else None,
            priority or run_priority or 0,
            at,
            slug,
            board,
            asker,
            flow or "",
            f"hold-{pk}",
            pk,
            partial(_whole, read, raw, hold_row, member),
        )


def task_lights(member: Member) -> Iterator[Light]:
    """One query."""
    read = all_tasks(member)
    pick = read.pick(
        "pk", "arm", "mine", "status", "due_at", "priority", "created_at", "updated_at", "started_at", "completed_at",
        "lease_until", "board__slug", "board__name", "filed_by", "assignee", "flow_key",
    )  # fmt: skip
    for raw in read.raw():
        (pk, arm, mine, status, due, priority, created, updated, started, completed, lease, slug, board, filed_by,
         assignee, flow) = pick(raw)  # fmt: skip
        to_read = arm in READ_ARMS
        since = updated
        if arm == "assigned":
            since = (started if status == Status.IN_PROGRESS else created) or updated
        elif arm in {"stuck", "withdrawn"}:
            since = completed or updated
        elif arm == "lost":
            since = lease or updated
        yield Light(
            READ_ARMS.get(arm, arm),
            mine,
            False,
            not to_read,
            None if to_read else due,
            priority,
            since,
            slug,
            board,
            filed_by if arm == "assigned" else assignee,
            (flow or "") if to_read else "",
            "",
            pk,
            partial(_whole, read, raw, read_task_row) if to_read else partial(_whole, read, raw, task_row, member),
        )


def _whole(read: Statement, raw: tuple[Any, ...], says: Callable[..., Row], *more: Any) -> Row:
    return says(read.dict_of(raw), *more)


def run_light(it: Mapping[str, Any], member: Member) -> Light:
    row = run_row(it, member)  # these are few
    return _of(row, it["pk"])


def debt_light(it: Mapping[str, Any]) -> Light:
    of_task = it["task__public_id"] is not None
    prefix = "task__board" if of_task else "run__flow__board"
    is_notice = it["kind"] == "notice"
    return Light(
        "notice" if is_notice else "debt",
        True,
        False,
        not is_notice,
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


def told_light(it: Mapping[str, Any]) -> Light:
    return Light(
        "told",
        True,
        False,
        False,
        None,
        0,
        it["at"],
        it["board__slug"],
        it["board__name"],
        "",
        it["run__flow__key"],
        f"told-{it['pk']}",
        it["pk"],
        partial(told_row, it),
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

"""Locks task rows in the one order and writes them with the one guarded update (spec: 01 section 2, 02 section 7).

Every state change of a task ends in `write_many`: it names the from-status, the grant and the revision that were seen,
and with a ticket the lease, so nothing can change between the check and the write. Rows that change the same fields
share one statement.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from django.db import connection, models

from boards.errors import TaskNotFound
from boards.lines import from_columns, literal
from boards.locks import Rank, sorted_keys, taking
from boards.models import Board, Task
from boards.tasks import plain_rows

WRITE_LOG_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Clock:
    """A moment by the database's clock: when the statement runs, and `ms` after it."""

    ms: float = 0.0


NOW = Clock()


@dataclass(frozen=True, slots=True)
class Write:
    """One row's named fields. `fenced`: only while its lease has not run out. `receipt`: the token to leave, or ""."""

    task: Task
    changes: dict[str, Any]
    fenced: bool = False
    receipt: str = ""


class Locked(dict[int, Task]):
    """Rows by key, locked until the transaction ends, and the database's time of the look."""

    now: datetime
    filers: set[int]  # those that have filed tasks themselves; known where rows are locked to be ended


def lock(keys: Iterable[int]) -> Locked:
    """Lock the rows by key, in one ordered statement; each comes with its board."""
    taking(Rank.TASK)
    wanted = literal(sorted_keys(keys))
    # "no key": rows that point at these (events, edges, transcripts) may be inserted meanwhile.
    return _read([(f"{_select(frozenset())} order by t.pk for no key update", [wanted]), (_BOARDS, [wanted])])


# What decides nothing about an ending and is read by whoever asks: texts of which each may be a megabyte, and what
# costs as much to carry as to write.
_TOLD: Final = frozenset(
    {"goal", "goal_hash", "title", "context", "input", "labels", "output", "steers", "feedback", "run"}
    | {"priority", "due_at", "created_by_id", "stage", "required", "status_note", "cancelled_via"}
    | {"started_at", "completed_at", "updated_at"}
)


def lock_to_end(keys: Iterable[int]) -> Locked:
    """Lock the rows and those that depend on them, all by key and in one ordered statement; answers the rows, without
    their long texts, and their boards.
    """
    taking(Rank.TASK)
    wanted = literal(sorted_keys(keys))
    statements = [(_LOCK_WITH_DEPENDENTS, [wanted, wanted]), (_select(_TOLD, _FILED), [wanted]), (_BOARDS, [wanted])]
    return _read(statements, _TOLD)


@cache
def _select(without: frozenset[str], filed: str = "false") -> str:
    return f"""select {plain_rows.columns(Task, "t", without)}, {filed}, statement_timestamp() from boards_task t
                where t.pk = any(%s::bigint[])"""


# Not as `exists`: that the planner may answer from a table of all filed tasks.
_FILED: Final = "(select c.pk from boards_task c where c.filed_by_task_id = t.pk limit 1) is not null"
# The keys as an array and not as a subquery: they stay an index condition.
_LOCK_WITH_DEPENDENTS: Final = """
    select count(*) from (
        select from boards_task t
         where t.pk = any(%s::bigint[] || array(
            select dependent_id from boards_taskdep where dependency_id = any(%s::bigint[])))
         order by t.pk for no key update) locked"""
_BOARDS: Final = f"""
    select {plain_rows.columns(Board, "b")} from boards_board b
     where b.id = any(array(select distinct board_id from boards_task where pk = any(%s::bigint[])))"""


def _read(statements: Sequence[plain_rows.Statement], without: frozenset[str] = frozenset()) -> Locked:
    *_, found, boards = plain_rows.answers(statements)
    known = {board.pk: board for board in (plain_rows.read(Board, row) for row in boards)}
    locked = Locked()
    locked.filers = set()
    for row in found:
        task = plain_rows.read(Task, row, without)
        plain_rows.set_board(task, known[task.board_id])
        locked[task.pk] = task
        *_, filed, locked.now = row
        if filed:
            locked.filers.add(task.pk)
    return locked


def lock_one(task: Task | int) -> tuple[Task, datetime]:
    """One locked row and the database's time; TaskNotFound where it is gone."""
    key = task.pk if isinstance(task, Task) else task
    locked = lock([key])
    if key not in locked:
        raise TaskNotFound
    return locked[key], locked.now


def write(task: Task, changes: dict[str, Any], *, fenced: bool = False, receipt: str = "") -> bool:
    """The guarded update of one row: True where it landed."""
    return bool(write_many([Write(task, changes, fenced, receipt)]))


def write_many(writes: Sequence[Write]) -> set[int]:
    """The guarded updates of many rows, one statement for each set of fields; answers the keys that landed.

    Values are plain, or a `Clock`; `revision` and `updated_at` move by themselves. A row that landed is brought up to
    date in memory, except for what the database's clock says.
    """
    groups: defaultdict[_Shape, list[tuple[Task, bool, dict[str, Any]]]] = defaultdict(list)
    for one in writes:
        changes = {**one.changes, **_receipt(one.task, one.receipt)} if one.receipt else one.changes
        shape = tuple([(name, value.__class__ is Clock) for name, value in changes.items()])
        groups[shape].append((one.task, one.fenced, changes))
    landed: set[int] = set()
    for shape, group in groups.items():
        landed |= _update(shape, group)
    for one in writes:
        if one.task.pk in landed:
            one.task.revision += 1
            for name, value in one.changes.items():
                if value.__class__ is not Clock:
                    setattr(one.task, name, value)
    return landed


_Shape = tuple[tuple[str, bool], ...]


def _update(shape: _Shape, group: list[tuple[Task, bool, dict[str, Any]]]) -> set[int]:
    """One UPDATE of all rows of a shape; a column that the clock fills gets offsets in milliseconds."""
    columns = {"pk": "bigint", "was": "text", "grant_no": "bigint", "revision": "bigint", "fenced": "boolean"}
    made = [(_column(name), clocked) for name, clocked in shape]
    sets = []
    for n, (column, clocked) in enumerate(made):
        source = f"statement_timestamp() + make_interval(secs => v.c{n} / 1000)" if clocked else f"v.c{n}"
        sets.append(f"{column.name} = {source if clocked else column.made_from.format(source)}")
        columns[f"c{n}"] = "float8" if clocked else column.cast
    tasks = [task for task, _, _ in group]
    keys = [task.pk for task in tasks]
    given: list[Sequence[Any]] = [
        keys,
        [str(task.status) for task in tasks],
        [task.grant_no for task in tasks],
        [task.revision for task in tasks],
        [fenced for _, fenced, _ in group],
        *(
            _params(column, clocked, [changes[name] for _, _, changes in group])
            for (name, _), (column, clocked) in zip(shape, made, strict=True)
        ),
    ]
    rows, params = from_columns(given, columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""update boards_task t
                   set {", ".join([*sets, "revision = t.revision + 1", "updated_at = statement_timestamp()"])}
                  from {rows}
                 where t.pk = any(%s::bigint[]) and t.pk = v.pk and {_AS_SEEN}
             returning t.pk""",
            [*params, literal(keys)],
        )
        return {row[0] for row in cursor.fetchall()}


# As one expression: by its parts the planner takes one row at most to be left, and joins each row with all the others.
_AS_SEEN: Final = """
    case when t.status = v.was and t.grant_no = v.grant_no and t.revision = v.revision
         then not v.fenced or t.lease_until is null or t.lease_until > statement_timestamp() else false end"""


def _params(column: _Column, clocked: bool, values: Sequence[Any]) -> Sequence[Any]:
    """The values of one column as they travel; endings of one kind mostly write the same."""
    first = values[0]
    if all(value is first for value in values):
        return [_param(column, clocked, first)] * len(values)
    return [_param(column, clocked, value) for value in values]


def _param(column: _Column, clocked: bool, value: Any) -> Any:
    return value.ms if clocked else column.param(value)


@dataclass(frozen=True, slots=True)
class _Column:
    """How values of a field travel: `cast` is the array's type, `made_from` makes the column out of an element."""

    name: str
    cast: str
    made_from: str = "{}"
    as_json: bool = False

    def param(self, value: Any) -> Any:
        if value is None:
            return None
        if self.as_json:
            return json.dumps(value)
        return value if isinstance(value, bool | int) and self.cast != "text" else str(value)


@cache
def _column(name: str) -> _Column:
    field = Task._meta.get_field(name)
    assert isinstance(field, models.Field)
    kind, name = field.db_type(connection) or "text", field.column or name
    if kind == "jsonb":
        return _Column(name, "jsonb", as_json=True)
    if kind.endswith("[]"):
        return _Column(name, "text", "array(select jsonb_array_elements_text({}::jsonb))", as_json=True)
    return _Column(name, "text" if kind.startswith("varchar") else kind)


def _receipt(task: Task, token: str) -> dict[str, Any]:
    log = [*task.write_log, {"id": token, "revision": task.revision + 1}]
    return {
        "write_log": log[-WRITE_LOG_LENGTH:],
        "write_log_truncated": task.write_log_truncated or len(log) > WRITE_LOG_LENGTH,
    }

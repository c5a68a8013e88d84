"""Task rows past the ORM's compiler, for the hot paths: read from plain statements, and inserted many at a time.

It decides nothing. What a statement answers becomes the same `Task` that a query set would have made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.models.base import ModelState
from psycopg.pq import Format

from boards import event_log, live_notices
from boards.actors import Chain
from boards.lines import from_columns, literal
from boards.models import Board, Task

Row = TypeVar("Row", bound=models.Model)
# Django's reader of times is three times as slow as the one beneath it, and rows have many.
_TIMES = psycopg.adapters.get_loader(psycopg.adapters.types["timestamptz"].oid, Format.TEXT)
Statement = tuple[str, Sequence[Any]]

# What a filing decides, with the type of its array; all else has the same value in every fresh row.
_FILED = {
    "partition": "text",
    "public_id": "text",
    "incarnation_id": "uuid",
    "goal": "text",
    "goal_hash": "text",
    "title": "text",
    "context": "text",
    "input": "jsonb",
    "labels": "text[]",
    "metadata": "jsonb",
    "priority": "int",
    "due_at": "timestamptz",
    "assignee": "text",
    "checker": "text",
    "max_attempts": "int",
    "status": "text",
    "unmet_deps": "int",
    "open_holds": "int",
    "board_id": "bigint",
    "follow_up_of_id": "bigint",
    "filed_by_task_id": "bigint",
    "filer_id": "uuid",
    "created_by_id": "bigint",
    "filed_by": "text",
    "visit_id": "bigint",
    "stage": "text",
    "required": "bool",
}
# As they travel: `unnest` would take an array of arrays apart, so each of those is a literal.
_TRAVELS = {name: "text" if kind == "text[]" else kind for name, kind in _FILED.items()}
_MADE_BY_DATABASE = {"key", "created_at", "updated_at"}


@cache
def columns(model: type[models.Model], alias: str, without: frozenset[str] = frozenset()) -> str:
    """The columns that `read` wants, in its order. `without`: attributes that are left to whoever asks for them."""
    fields = [field for field in model._meta.concrete_fields if field.attname not in without]
    return ", ".join(f'{alias}."{field.column}"' for field in fields)


def read(model: type[Row], values: Sequence[Any], without: frozenset[str] = frozenset()) -> Row:
    """The row of one line that begins with the `columns` of its model. What was left out is a deferred field: it is
    read from the database by whoever asks for it.
    """
    made = _bare(model, values, _names(model, without))  # what stands behind the columns is left out by zip
    held = made.__dict__
    for name in _json_names(model, without):
        stored = held[name]
        if stored is not None:
            held[name] = {} if stored == "{}" else [] if stored == "[]" else json.loads(stored)
    return made


def set_board(task: Task, board: Board) -> None:
    """Of a row that was read with its `board_id`; the relation's own setter costs as much as the reading."""
    task._state.fields_cache["board"] = board


def fresh(board: Board, of_all: dict[str, Any], **given: Any) -> Task:
    """A task of that board that is not stored yet, by attribute names: `of_all` are those that a batch has in common.
    `insert` stores it. What is not given has its default.
    """
    made = Task.__new__(Task)
    made.__dict__ = {**_defaults(), **of_all, **given, "steers": [], "write_log": [], "_state": _state()}
    set_board(made, board)
    return made


def insert(tasks: Sequence[Task], chain: Chain, run_id: int | None) -> list[Task]:
    """Insert fresh tasks in their order with their `task.filed` events, in one statement; answers those whose id was
    free.
    """
    held = [task.__dict__ for task in tasks]
    columns_of = [_params([row[name] for row in held], cast) for name, cast in _FILED.items()]
    source, params = from_columns(columns_of, _TRAVELS)
    with connection.cursor() as cursor:
        quick_times(cursor)
        cursor.execute(
            _insert_statement().format(source), [*params, *event_log.filed_params(chain, run_id), len(tasks)]
        )
        keys, names, at = cursor.fetchone()
    free = set(names) if names else ()  # named only where some were taken
    stored = [task for task in tasks if task.public_id in free] if len(keys or ()) < len(tasks) else list(tasks)
    for task, key in zip(stored, keys or (), strict=True):
        task.key, task.created_at, task.updated_at = key, at, at
    live_notices.changed_all((task.board_id, task.key, run_id) for task in stored)
    return stored


def answers(statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
    """Run statements in one trip to the database; the rows of each. Every one has a snapshot of its own."""
    if not statements:
        return []
    with connection.cursor() as cursor:
        quick_times(cursor)
        cursor.execute(
            ";".join(statement for statement, _ in statements), [value for _, params in statements for value in params]
        )
        found = [cursor.fetchall() if cursor.description else []]
        while cursor.nextset():
            found.append(cursor.fetchall() if cursor.description else [])
    return found


def quick_times(cursor: Any) -> None:
    """Read this cursor's times by the reader beneath Django's."""
    cursor.cursor.adapters.register_loader("timestamptz", _TIMES)


def _params(values: list[Any], cast: str) -> Sequence[Any]:
    """How the values of a column travel; in a batch most columns have one value for all."""
    first = values[0]
    # Of documents only empty ones: Python holds 1, 1.0 and True in them to be the same.
    if (cast != "jsonb" or not first) and values.count(first) == len(values):
        return [param(first, cast)] * len(values)
    return [param(value, cast) for value in values]


def param(value: Any, cast: str) -> Any:
    """How a value of a task travels to a column of that type."""
    if value is None or cast in {"int", "bigint", "bool"}:
        return value
    if cast == "text[]":
        return "{}" if value == [] else literal(value)
    if cast == "jsonb":
        return "{}" if value == {} else "[]" if value == [] else json.dumps(value, ensure_ascii=False)
    return str(value)


@cache
def _insert_statement() -> str:
    """To be formatted with the rows. `on conflict` instead of a savepoint around an error: a taken id costs nothing
    where there is none. One line answers for all: the keys, which rise with the places, and the one time of the
    statement.
    """
    fields = {field.attname: field for field in Task._meta.concrete_fields}
    targets = [str(fields[name].column) for name in _FILED]
    sources = [f"v.{name}::{kind}" if kind != _TRAVELS[name] else f"v.{name}" for name, kind in _FILED.items()]
    for name, value in _defaults().items():
        if name not in _FILED and name not in _MADE_BY_DATABASE and value is not None:
            targets.append(str(fields[name].column))
            sources.append(_literal(value))
    quoted = ", ".join(f'"{target}"' for target in targets)
    return f"""
        with filed as (
            insert into boards_task ({quoted}) select {", ".join(sources)}
              from {{}} order by place
            on conflict (board_id, partition, id) do nothing
            returning id, pk, created_at, board_id, status, follow_up_of_id
        ), told as ({event_log.FILED.format("filed").replace("{}", "{{}}")})
        select array_agg(pk order by pk), case when count(*) < %s then array_agg(id order by pk) end, min(created_at)
          from filed"""


def _literal(value: Any) -> str:
    """A default of ours as SQL: a number, a truth, an empty text or an empty list."""
    if isinstance(value, bool | int):
        return str(value).lower()
    return "'[]'" if value == [] else "'{{}}'" if value == {} else f"'{value}'"


@cache
def _names(model: type[models.Model], without: frozenset[str] = frozenset()) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields if field.attname not in without]


@cache
def _json_names(model: type[models.Model], without: frozenset[str] = frozenset()) -> list[str]:
    fields = [field for field in model._meta.concrete_fields if isinstance(field, models.JSONField)]
    return [field.attname for field in fields if field.attname not in without]


def _bare(model: type[Row], values: Sequence[Any], names: Sequence[str]) -> Row:
    """A stored row without the field by field work of a model's `__init__`, which costs more than the reading."""
    made = model.__new__(model)
    made.__dict__.update(zip(names, values, strict=False))
    made._state = _state()
    return made


def _state() -> ModelState:
    state = ModelState()
    state.adding, state.db = False, DEFAULT_DB_ALIAS
    return state


@cache
def _defaults() -> dict[str, Any]:
    return {
        field.attname: None if field.attname in _MADE_BY_DATABASE or field.attname in _FILED else field.get_default()
        for field in Task._meta.concrete_fields
    }

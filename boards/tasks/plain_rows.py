"""Task rows past the ORM's compiler, for the hot paths: read from plain statements, and inserted many at a time.

It decides nothing. What a statement answers becomes the same `Task` that a query set would have made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from django.db import connection, models

from boards import event_log, live_notices
from boards.actors import Chain
from boards.models import Task

Row = TypeVar("Row", bound=models.Model)
Statement = tuple[str, Sequence[Any]]

# What a filing decides, with the type of its array; all else has the same value in every fresh row.
_FILED = {
    "public_id": "text",
    "incarnation_id": "uuid",
    "goal": "text",
    "goal_hash": "text",
    "title": "text",
    "context": "text",
    "input": "jsonb",
    "labels": "jsonb",
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
    "filed_by_task_id": "bigint",
    "filer_id": "uuid",
    "created_by_id": "bigint",
    "filed_by": "text",
    "visit_id": "bigint",
}
_MADE_BY_DATABASE = {"key", "created_at", "updated_at"}


@cache
def columns(model: type[models.Model], alias: str) -> str:
    """The columns that `read` wants, in its order."""
    return ", ".join(f'{alias}."{field.column}"' for field in model._meta.concrete_fields)


def read(model: type[Row], values: Sequence[Any]) -> Row:
    """The row of one line that begins with the `columns` of its model."""
    names = _names(model)
    row = list(values[: len(names)])
    for place in _json_places(model):
        if row[place] is not None:
            row[place] = json.loads(row[place])
    return model.from_db(connection.alias, names, row)


def fresh(**given: Any) -> Task:
    """A task that is not stored yet, by attribute names; `insert` stores it. What is not given has its default."""
    row = list(_defaults())
    places = _places()
    row[places["steers"]], row[places["write_log"]] = [], []
    for name, value in given.items():
        row[places[name]] = value
    return Task.from_db(connection.alias, _names(Task), row)


def insert(tasks: Sequence[Task], chain: Chain, run_id: int | None) -> list[Task]:
    """Insert fresh tasks in their order with their `task.filed` events, in one statement; answers those whose id was
    free.
    """
    params = [[_param(task, name, cast) for task in tasks] for name, cast in _FILED.items()]
    with connection.cursor() as cursor:
        cursor.execute(_insert_statement(), [*params, *event_log.filed_params(chain, run_id)])
        made: dict[str, tuple[int, datetime, datetime]] = {row[0]: row[1:4] for row in cursor.fetchall()}
    stored = [task for task in tasks if task.public_id in made]
    for task in stored:
        task.key, task.created_at, task.updated_at = made[task.public_id]
        live_notices.changed(task.board_id, task_key=task.pk, run_id=run_id)
    return stored


def answers(statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
    """Run statements in one trip to the database; the rows of each. Every one has a snapshot of its own."""
    if not statements:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            ";".join(statement for statement, _ in statements), [value for _, params in statements for value in params]
        )
        found = [cursor.fetchall() if cursor.description else []]
        while cursor.nextset():
            found.append(cursor.fetchall() if cursor.description else [])
    return found


def _param(task: Task, name: str, cast: str) -> Any:
    value = getattr(task, name)
    if cast == "jsonb":
        return json.dumps(value) if value else ("[]" if isinstance(value, list) else "{}")
    return str(value) if cast == "text" else value


@cache
def _insert_statement() -> str:
    """`on conflict` instead of a savepoint around an error: a taken id costs nothing where there is none."""
    fields = {field.attname: field for field in Task._meta.concrete_fields}
    targets = [str(fields[name].column) for name in _FILED]
    sources = ["array(select jsonb_array_elements_text(v.labels))" if n == "labels" else f"v.{n}" for n in _FILED]
    for name, value in zip(_names(Task), _defaults(), strict=True):
        if name not in _FILED and name not in _MADE_BY_DATABASE and value is not None:
            targets.append(str(fields[name].column))
            sources.append(_literal(value))
    arrays = ", ".join(f"%s::{'text' if cast == 'jsonb' else cast}[]::{cast}[]" for cast in _FILED.values())
    quoted = ", ".join(f'"{target}"' for target in targets)
    return f"""
        with filed as (
            insert into boards_task ({quoted}) select {", ".join(sources)}
              from unnest({arrays}) with ordinality as v({", ".join(_FILED)}, place) order by place
            on conflict (board_id, partition, id) do nothing
            returning id, pk, created_at, updated_at, board_id, status
        ), told as ({event_log.FILED.format("filed")})
        select id, pk, created_at, updated_at from filed"""


def _literal(value: Any) -> str:
    """A default of ours as SQL: a number, a truth, an empty text or an empty list."""
    if isinstance(value, bool | int):
        return str(value).lower()
    return "'[]'" if value == [] else f"'{value}'"


@cache
def _names(model: type[models.Model]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]


@cache
def _places() -> dict[str, int]:
    return {name: place for place, name in enumerate(_names(Task))}


@cache
def _json_places(model: type[models.Model]) -> list[int]:
    return [n for n, field in enumerate(model._meta.concrete_fields) if isinstance(field, models.JSONField)]


@cache
def _defaults() -> list[Any]:
    return [
        None if field.attname in _MADE_BY_DATABASE or field.attname in _FILED else field.get_default()
        for field in Task._meta.concrete_fields
    ]

"""Statements that are put together once per process: making a long one by the ORM takes longer than answering it.

A maker takes nothing but values that can be hashed, and its statement depends on nothing else; what it is asked for is
read anew each time. Reads only. Every value is a parameter, and nothing is prepared on the server, so a pooler in
transaction mode accepts it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, ParamSpec, cast

import psycopg
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import BooleanField, F, Func, IntegerField, QuerySet, Value
from psycopg.pq import Format

MOST: Final = 128  # of each maker: so many readers, boards and filters are asked for at about the same time

Asked = ParamSpec("Asked")
_MOMENT: Final = psycopg.adapters.types["timestamptz"].oid


class _Keys:
    """Stands in a statement for the keys that are given when it is asked."""


_KEYS: Final = _Keys()


def has_asked_key() -> Func:
    """A condition: the row's key is one of those that the statement is asked for."""
    parts = {"template": "%(expressions)s::bigint[])", "arg_joiner": " = any("}
    return Func(F("pk"), Value(_KEYS), output_field=BooleanField(), **parts)


@dataclass(frozen=True, slots=True)
class Statement:
    """What a `values()` or `values_list()` reads. `sql` is "" where its conditions can hold for no row."""

    sql: str
    params: tuple[Any, ...]
    names: tuple[str, ...]
    converters: tuple[tuple[int, Sequence[Callable[..., Any]], Any], ...]

    @classmethod
    def of(cls, rows: QuerySet[Any, Any]) -> Statement:
        query = rows.query
        compiler = query.get_compiler(connection=connection)
        with contextlib.suppress(EmptyResultSet):
            sql, params = compiler.as_sql()
            columns = [column for column, _sql, _alias in (compiler.select or [])[: compiler.col_count]]
            converters = compiler.get_converters(columns)
            names = tuple(query.selected or [*query.values_select, *query.annotation_select])
            return cls(sys.intern(sql), tuple(params), names, tuple((at, *both) for at, both in converters.items()))
        return cls("", (), (), ())

    def tuples(self, keys: Sequence[int] = ()) -> list[tuple[Any, ...]]:
        """The rows. One query, none where there can be no row."""
        rows = self.raw(keys)
        return [self._converted(row) for row in rows] if self.converters else rows

    def dicts(self, keys: Sequence[int] = ()) -> Iterator[dict[str, Any]]:
        """The rows by the names of their columns. One query, as above."""
        return map(self.dict_of, self.raw(keys))

    def raw(self, keys: Sequence[int] = ()) -> list[tuple[Any, ...]]:
        """As the driver reads them, for `pick` and `dict_of`: of many rows few may be wanted whole."""
        if not self.sql:
            return []
        with connection.cursor() as cursor:
            _read_moments_fast(cursor.cursor)
            cursor.execute(self.sql, [list(keys) if param is _KEYS else param for param in self.params])
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows

    def dict_of(self, raw: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self.names, self._converted(raw) if self.converters else raw, strict=True))

    def pick(self, *names: str) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """What takes these columns out of a raw row; none that has to be converted, as JSON has."""
        if not self.sql:
            return lambda raw: raw  # there is none
        places = [self.names.index(name) for name in names]
        for at, _converters, column in self.converters:
            if at in places and not isinstance(column.output_field, IntegerField):  # a whole number is one already
                raise ValueError(f"Read the whole row for {self.names[at]}.")
        return itemgetter(*places)

    def _converted(self, raw: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(raw)
        for at, converters, column in self.converters:
            for convert in converters:
                values[at] = convert(values[at], column, connection)
        return tuple(values)


def made_once(maker: Callable[Asked, QuerySet[Any, Any]]) -> Callable[Asked, Statement]:
    """The statement of what `maker` returns, kept for each of the values that it is called with."""

    @lru_cache(maxsize=MOST)
    def kept(*args: Asked.args, **kwargs: Asked.kwargs) -> Statement:
        return Statement.of(maker(*args, **kwargs))

    return cast("Callable[Asked, Statement]", kept)


def _read_moments_fast(cursor: Any) -> None:
    """By the driver's own reader: Django's sets the zone in Python, and the session's zone is UTC anyway."""
    reader = psycopg.adapters.get_loader(_MOMENT, Format.TEXT)
    if reader is not None:
        cursor.adapters.register_loader(_MOMENT, reader)

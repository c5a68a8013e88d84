"""Many rows as parameters of one statement, for a fraction of what psycopg's own arrays cost.

Pure: it makes the FROM item and its parameters. A column that is the same in every row travels once, the others as one
array literal each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Item = tuple[str, list[Any]]


def lines(rows: Sequence[Sequence[Any]], columns: Mapping[str, str], name: str = "v") -> Item:
    """The FROM item of these rows and its parameters: the columns with their SQL types, and `place`, the row's number.

    Values are numbers, truths, texts (of which the statement makes what the type says, JSON too) and None.
    """
    return from_columns(list(zip(*rows, strict=True)), columns, name)


def from_columns(given: Sequence[Sequence[Any]], columns: Mapping[str, str], name: str = "v") -> Item:
    """The same, for who has the values of each column."""
    same, arrays = [], []
    for (column, kind), values in zip(columns.items(), given, strict=True):
        first = values[0]
        if values.count(first) == len(values):
            same.append((f"%s::{kind} as {column}", first))
        else:
            arrays.append((column, f"%s::{kind}[]", literal(values)))
    once = "".join(f", {sql}" for sql, _ in same)
    if not arrays:
        source = "generate_series(1, %s) as u(place)"
        return f"(select u.place{once} from {source}) as {name}", [*(value for _, value in same), len(given[0])]
    names = ", ".join(column for column, _, _ in arrays)
    source = f"unnest({', '.join(sql for _, sql, _ in arrays)}) with ordinality as u({names}, place)"
    params = [*(value for _, value in same), *(value for _, _, value in arrays)]
    return f"(select u.*{once} from {source}) as {name}", params


def literal(values: Sequence[Any]) -> str:
    """An array as the database reads it."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)

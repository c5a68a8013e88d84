"""Many rows as one parameter of a statement: JSON, which costs a fraction of what an array for each column does.

Pure: it makes the parameter and the FROM item that reads it. JSON columns travel as values, or as JSON text that the
statement casts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def lines(rows: Iterable[Sequence[Any]], columns: Iterable[str]) -> str:
    """The parameter: each row's values in the order of the columns (numbers, truths, texts, None, or JSON)."""
    names = list(columns)
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False)


def from_lines(columns: Mapping[str, str], name: str = "v") -> str:
    """The FROM item of one such parameter: the columns with their SQL types, and `place`, the row's number."""
    typed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    return (
        f"rows from (json_to_recordset(%s::json) as ({typed})) with ordinality as {name}({', '.join(columns)}, place)"
    )

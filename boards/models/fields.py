"""Column types and defaults that the database computes; no clock of a process is ever stored."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Func
from django.db.models.functions import Now

if TYPE_CHECKING:
    _IntField = models.Field[int, int]  # the class can be subscripted by type checkers only
else:
    _IntField = models.Field


class Xid8Field(_IntField):
    """The writing transaction's id (`xid8`), by which readers catch up without missing a late commit (spec: 07, 1.4).

    Compared and ordered by the column, never by its text.
    """

    def db_type(self, connection: Any) -> str:
        return "xid8"

    def rel_db_type(self, connection: Any) -> str:
        return "xid8"

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else str(value)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> int | None:
        return None if value is None else int(value)


class CurrentXid(Func):
    function = "pg_current_xact_id"
    output_field = Xid8Field()


def stamp(**options: Any) -> models.DateTimeField[Any, datetime]:
    """A moment that the database writes by its own clock when the row is made."""
    return models.DateTimeField(db_default=Now(), editable=False, **options)


def text(**options: Any) -> models.TextField[str, str]:
    """Free text, empty when there is none."""
    settings: dict[str, Any] = {"blank": True, "default": "", **options}
    return models.TextField(**settings)

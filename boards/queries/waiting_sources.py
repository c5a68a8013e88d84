"""Conditions that every source of *Needs you* shares. Pure expressions over the tables."""

from __future__ import annotations

from typing import Final

from django.db.models import BooleanField, Case, Q, Value, When

NOBODY: Final = Q(pk__in=())


def flag(condition: Q) -> Case:
    """The condition as a column."""
    return Case(When(condition, then=Value(True)), default=Value(False), output_field=BooleanField())


def when(true: bool) -> Q:
    """All rows, or none."""
    return ~NOBODY if true else NOBODY

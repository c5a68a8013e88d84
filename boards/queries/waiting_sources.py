"""Conditions that every source of *Needs you* shares. Pure expressions over the tables."""

from __future__ import annotations

from typing import Final

from django.db.models import BooleanField, Case, Q, TextField, Value, When
from django.db.models.functions import Cast

from boards.models import Board, Member, Session

NOBODY: Final = Q(pk__in=())


def own_partition(member: Member, field: str) -> Q:
    """On a partitioned board only rows of a partition of one's own exist for a member (spec: 01 section 2)."""
    own = Session.objects.filter(user_id=member.user_id).annotate(text_id=Cast("pk", TextField())).values("text_id")
    return (
        Q(board__partition_by=Board.PartitionBy.NONE)
        | Q(board__partition_by=Board.PartitionBy.USER, **{field: str(member.user_id)})
        | Q(board__partition_by=Board.PartitionBy.SESSION, **{f"{field}__in": own})
    )


def flag(condition: Q) -> Case:
    """The condition as a column."""
    return Case(When(condition, then=Value(True)), default=Value(False), output_field=BooleanField())


def when(true: bool) -> Q:
    """All rows, or none."""
    return ~NOBODY if true else NOBODY

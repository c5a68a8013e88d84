"""How workers read holds: an answer that its author may still take back reaches nobody yet (spec: 04 section 3.3)."""

from __future__ import annotations

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from boards.models import Hold


def with_settling(holds: QuerySet[Hold]) -> QuerySet[Hold]:
    """The holds with `is_settling`, judged by the database's clock at the time of the read."""
    settling = Q(settles_at__isnull=False, settles_at__gt=Now())
    return holds.annotate(is_settling=ExpressionWrapper(settling, output_field=BooleanField()))

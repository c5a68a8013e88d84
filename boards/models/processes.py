"""Drains and sweepers that are alive, so that pages can show who works (spec: 03 section 3.6)."""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from boards.models.fields import stamp, text


class Process(models.Model):
    """One drain or sweeper. `beat_at` is written by the database clock while it lives."""

    class Kind(models.TextChoices):
        DRAIN = "drain", "Drain"
        SWEEPER = "sweeper", "Sweeper"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=8, choices=Kind)
    host = text()
    pid = models.PositiveIntegerField()
    version = text()
    # Board ids served (empty: all) and "board:assignee" pairs that this process has workers for.
    boards = ArrayField(models.BigIntegerField(), default=list, blank=True)
    assignees = ArrayField(models.TextField(), default=list, blank=True)
    slots = models.PositiveIntegerField(default=0)
    busy = models.PositiveIntegerField(default=0)
    listening = models.BooleanField(default=False)
    started_at = stamp()
    beat_at = models.DateTimeField(db_default=Now())
    swept_at = models.DateTimeField(null=True, blank=True)  # when the last pass of a sweeper ended
    stopped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{self.kind} on {self.host}"

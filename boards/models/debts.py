"""Debts: what a committed write still owes (spec: 07 section 2). A paid debt's row is deleted."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from boards.models.fields import stamp, text
from boards.models.runs import FlowRun
from boards.models.tasks import Task


class Debt(models.Model):
    class State(models.TextChoices):
        OWED = "owed", "Owed"
        UNDELIVERABLE = "undeliverable", "Failed for good"

    kind = models.CharField(max_length=24)
    unique_key = models.CharField(max_length=300, unique=True)
    task = models.ForeignKey(Task, models.CASCADE, null=True, blank=True, related_name="debts")
    run = models.ForeignKey(FlowRun, models.CASCADE, null=True, blank=True, related_name="debts")
    # "any", "drain", or "drain:<id>" for what can only be paid where the process is.
    payer = models.CharField(max_length=60, default="any")
    data = models.JSONField(default=dict)
    due_at = models.DateTimeField(db_default=Now())
    # A chained debt falls due when this one is paid.
    after = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="then")
    tries = models.PositiveIntegerField(default=0)
    last_error = text()
    state = models.CharField(max_length=14, choices=State, default=State.OWED)
    created_at = stamp()

    class Meta:
        indexes = [
            models.Index(fields=["payer", "due_at"], condition=models.Q(state="owed"), name="debt_due"),
        ]

    def __str__(self) -> str:
        return self.unique_key

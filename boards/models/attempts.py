"""Attempts: one row per claim of a task, with how it ended (spec: 00 "Words", 02)."""

from __future__ import annotations

from django.db import models

from boards.models.fields import stamp, text
from boards.models.sessions import Session
from boards.models.tasks import Task


class Attempt(models.Model):
    class Ending(models.TextChoices):
        COMPLETED = "completed", "Done"
        HANDED_IN = "handed_in", "Handed in"
        FAILED = "failed", "Failed"
        HANDED_BACK = "handed_back", "Handed back"
        LOST = "lost", "Lost its worker"
        ABANDONED = "abandoned", "Lost its worker too often"
        CANCELLED = "cancelled", "Cancelled"
        WITHDRAWN = "withdrawn", "The due time passed"
        RECLAIMED = "reclaimed", "Reclaimed by an operator"

    task = models.ForeignKey(Task, models.CASCADE, related_name="attempt_rows")
    number = models.PositiveIntegerField()
    session = models.ForeignKey(Session, models.SET_NULL, null=True, blank=True)
    assignee = models.CharField(max_length=100, blank=True, default="")
    started_at = stamp()
    ended_at = models.DateTimeField(null=True, blank=True)
    ending = models.CharField(max_length=12, choices=Ending, blank=True, default="")
    error = text()
    # The result of this attempt where it handed one in; the task keeps only the latest.
    output = models.JSONField(null=True, blank=True)
    # name -> result of `task.step`, in the order they were recorded.
    steps = models.JSONField(default=dict, blank=True)
    spend = models.JSONField(default=list, blank=True)
    claimed_by = models.JSONField(null=True, blank=True)
    # When what its worker was lent was ended behind a withdraw; every other ending ends it with itself.
    lend_ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["task", "number"], name="attempt_number_once_per_task"),
            # Relied on by every ending: never two live attempts on one row.
            models.UniqueConstraint(
                fields=["task"], condition=models.Q(ended_at__isnull=True), name="attempt_one_open_per_task"
            ),
            models.CheckConstraint(
                condition=models.Q(ended_at__isnull=True, ending="")
                | (models.Q(ended_at__isnull=False) & ~models.Q(ending="")),
                name="attempt_ended_says_how",
            ),
        ]

    def __str__(self) -> str:
        return f"Attempt {self.number} of {self.task}"

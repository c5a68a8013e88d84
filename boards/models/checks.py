"""Checks by agents, and what members have seen of what only wants to be read (spec: 04 sections 3 and 5)."""

from __future__ import annotations

from django.db import models

from boards.models.fields import stamp, text
from boards.models.spaces import Member
from boards.models.tasks import Task


class AgentCheck(models.Model):
    """One hand-in that an agent checks: the result as a task of its own, and what its verdict came to."""

    class Verdict(models.TextChoices):
        ACCEPTED = "accepted", "Accepted"
        SENT_BACK = "sent_back", "Sent back"
        NONE = "none", "No verdict"

    task = models.ForeignKey(Task, models.CASCADE, related_name="agent_checks")
    attempt = models.PositiveIntegerField()
    # None from the first look on where a person has to check instead.
    check_task = models.OneToOneField(Task, models.CASCADE, null=True, blank=True, related_name="check_of")
    agent = models.CharField(max_length=100)
    verdict = models.CharField(max_length=10, choices=Verdict, blank=True, default="")
    words = text()
    created_at = stamp()

    class Meta:
        constraints = [
            # Relied on by the payer: one hand-in is given to its checker once, whoever pays.
            models.UniqueConstraint(fields=["task", "attempt"], name="agent_check_once_per_attempt")
        ]

    def __str__(self) -> str:
        return f"Check of {self.task} by {self.agent}"


class Seen(models.Model):
    """A row of *Needs you* that only wanted to be read, and was."""

    member = models.ForeignKey(Member, models.CASCADE, related_name="seen")
    key = models.CharField(max_length=120)
    at = stamp()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["member", "key"], name="seen_once_per_member")]

    def __str__(self) -> str:
        return self.key

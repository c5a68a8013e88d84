"""Sessions and what was said in them (spec: 00 "Words")."""

from __future__ import annotations

import uuid

from django.db import models

from boards.models.fields import stamp, text
from boards.models.spaces import Space


class Session(models.Model):
    """A conversation. Its id comes from the server and is never used again."""

    class Kind(models.TextChoices):
        MEMBER = "member"
        KEY = "key"
        FLOW_RUN = "flow_run"
        TASK_RUN = "task_run"
        SERVICE = "service"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    space = models.ForeignKey(Space, models.CASCADE, related_name="sessions")
    kind = models.CharField(max_length=10, choices=Kind)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="children")
    user = models.ForeignKey("boards.User", models.CASCADE, null=True, blank=True)
    label = text()
    created_at = stamp()

    class Meta:
        constraints = [
            # Relied on by filing from pages: one session of a person's own in a space.
            models.UniqueConstraint(
                fields=["space", "user"], condition=models.Q(kind="member"), name="session_one_per_member"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} session {self.id}"


class TranscriptItem(models.Model):
    """One line of a transcript: what a worker said, printed or was told, in the order it was stored."""

    class Kind(models.TextChoices):
        STATUS = "status"
        MESSAGE = "message"
        OUTPUT = "output"
        ERROR = "error"
        ASKED = "asked"
        ANSWERED = "answered"
        STEER = "steer"
        LATE = "late"

    session = models.ForeignKey(Session, models.CASCADE, null=True, blank=True, related_name="items")
    # Without an index of its own: `transcript_by_task` begins with it.
    task = models.ForeignKey(
        "boards.Task", models.CASCADE, null=True, blank=True, related_name="transcript", db_index=False
    )
    attempt = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=10, choices=Kind)
    who = text()
    text = text()
    data = models.JSONField(null=True, blank=True)
    at = stamp()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["task", "id"], name="transcript_by_task")]

    def __str__(self) -> str:
        return str(self.text)[:80]

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
    # One session a task is made, by the claim, out of rows that it holds; none is looked up by its space alone.
    space = models.ForeignKey(Space, models.CASCADE, related_name="sessions", db_constraint=False, db_index=False)
    kind = models.CharField(max_length=10, choices=Kind)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="children")
    user = models.ForeignKey("boards.User", models.CASCADE, null=True, blank=True, db_index=False)
    label = text()
    created_at = stamp()

    class Meta:
        constraints = [
            # Relied on by filing from pages: one session of a person's own in a space.
            models.UniqueConstraint(
                fields=["space", "user"], condition=models.Q(kind="member"), name="session_one_per_member"
            )
        ]
        indexes = [
            models.Index(fields=["user"], condition=models.Q(user__isnull=False), name="session_by_user"),
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

    # Of a run that holds the session; looking that it exists would cost every line as much as writing it.
    session = models.ForeignKey(
        Session, models.CASCADE, null=True, blank=True, related_name="items", db_constraint=False
    )
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

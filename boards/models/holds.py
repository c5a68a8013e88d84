"""Holds: what a task or a run waits on a person for (spec: 04 section 1)."""

from __future__ import annotations

from django.db import models

from boards.models.boards import Board
from boards.models.fields import stamp, text
from boards.models.sessions import Session
from boards.models.tasks import Task
from boards.states import HoldKind, HoldState


class Hold(models.Model):
    """One question to a person. Its subject is a task or a visit of a flow run, never both.

    `options`: list of {"value", "label", "description"}; `answer`: {"choice": value, "text": words} or, for kind
    input, {"values": {...}}; `default`: the value that its author named for the due time, or "".
    """

    class Source(models.TextChoices):
        FILING = "filing"
        WORKER = "worker"
        SUSPENSION = "suspension"
        STEP = "step"

    board = models.ForeignKey(Board, models.CASCADE, related_name="holds")
    task = models.ForeignKey(Task, models.CASCADE, null=True, blank=True, related_name="holds")
    visit = models.ForeignKey("boards.Visit", models.CASCADE, null=True, blank=True, related_name="holds")
    branch = models.ForeignKey("boards.Branch", models.CASCADE, null=True, blank=True, related_name="holds")
    attempt = models.PositiveIntegerField(default=0)
    position = models.PositiveIntegerField(default=0)
    source = models.CharField(max_length=10, choices=Source)
    request_id = text()
    kind = models.CharField(max_length=10, choices=HoldKind)
    dedup_key = models.CharField(max_length=200)
    content_hash = models.CharField(max_length=64, blank=True, default="")
    prompt = text()
    title = text()
    context = text()
    options = models.JSONField(default=list, blank=True)
    schema = models.JSONField(null=True, blank=True)
    draft = models.JSONField(null=True, blank=True)
    draft_hash = models.CharField(max_length=64, blank=True, default="")
    asker = text()
    asker_session = models.ForeignKey(Session, models.SET_NULL, null=True, blank=True)
    asked_at = stamp()
    due_at = models.DateTimeField(null=True, blank=True)
    default = models.CharField(max_length=100, blank=True, default="")
    assignee = models.ForeignKey("boards.User", models.SET_NULL, null=True, blank=True, related_name="assigned_holds")
    assignee_role = models.CharField(max_length=10, blank=True, default="")
    state = models.CharField(max_length=10, choices=HoldState, default=HoldState.OPEN)
    answer = models.JSONField(null=True, blank=True)
    answer_key = models.CharField(max_length=200, blank=True, default="")
    answered_by = models.ForeignKey(
        "boards.User", models.SET_NULL, null=True, blank=True, related_name="answered_holds"
    )
    answered_by_name = text()
    answered_at = models.DateTimeField(null=True, blank=True)
    closed_reason = text()
    # Until then the author of an answer may take it back, and nothing has followed from it.
    settles_at = models.DateTimeField(null=True, blank=True)
    # Of a gate draft: the address to which the product itself sends it on a yes; "" where its asker sends it.
    outlet = text()
    delivered_at = models.DateTimeField(null=True, blank=True)
    read_at = models.DateTimeField(null=True, blank=True)
    revision = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(task__isnull=False, visit__isnull=True)
                | models.Q(task__isnull=True, visit__isnull=False),
                name="hold_exactly_one_subject",
            ),
            # Relied on by asking again: the same question of one attempt is the same row.
            models.UniqueConstraint(
                fields=["task", "attempt", "dedup_key"],
                condition=models.Q(task__isnull=False),
                name="hold_once_per_attempt_and_key",
            ),
            models.UniqueConstraint(
                fields=["visit", "dedup_key"],
                condition=models.Q(visit__isnull=False),
                name="hold_once_per_visit_and_key",
            ),
            models.CheckConstraint(
                condition=models.Q(state="open", answered_at__isnull=True)
                | (~models.Q(state="open") & models.Q(answered_at__isnull=False)),
                name="hold_closed_says_when",
            ),
            # Relied on by undo: only an answer settles, and it lets go of that when it is taken back.
            models.CheckConstraint(
                condition=models.Q(settles_at__isnull=True) | models.Q(state="answered"),
                name="hold_settles_only_answered",
            ),
        ]
        indexes = [
            models.Index(fields=["board", "due_at"], condition=models.Q(state="open"), name="hold_open_by_board"),
            models.Index(fields=["due_at"], condition=models.Q(state="open", due_at__isnull=False), name="hold_due"),
        ]

    def __str__(self) -> str:
        return str(self.title or self.prompt)[:80]

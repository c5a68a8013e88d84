"""Keys of members for agents, and how many calls each caller of the API made in its minute (spec: 06 section 6)."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from boards.models.boards import Board
from boards.models.fields import stamp, text
from boards.models.sessions import Session
from boards.models.spaces import Member


class Scope(models.TextChoices):
    """What a key may be for; it never does more than its member may."""

    READ = "read", "Read"
    FILE = "file", "File"
    WORK = "work", "Work"
    DECIDE = "decide", "Decide"
    ADMIN = "admin", "Admin"


class AgentKey(models.Model):
    """What an agent shows to act for a member. Only a hash of it is kept; `prefix` is what people know it by.

    `every_board`: all that the member sees, also those to come; else `boards`, of which none may be left. Until
    `old_until` the key that it replaced is let in as well. What the key files and asks belongs to `session`.
    """

    member = models.ForeignKey(Member, models.CASCADE, related_name="keys")
    name = models.CharField(max_length=100)
    scopes = ArrayField(models.CharField(max_length=10, choices=Scope))
    every_board = models.BooleanField(default=True)
    boards = models.ManyToManyField(Board, related_name="keys", blank=True)
    session = models.ForeignKey(Session, models.CASCADE, related_name="keys")
    prefix = models.CharField(max_length=20)
    secret_hash = models.CharField(max_length=64, unique=True)
    old_hash = models.CharField(max_length=64, unique=True, null=True, blank=True)
    old_until = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by_name = text()
    created_at = stamp()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(scopes__contained_by=Scope.values, scopes__len__gte=1), name="key_scopes_known"
            ),
            # Relied on by every gate: whoever works a task decides nothing with the same key.
            models.CheckConstraint(
                condition=~models.Q(scopes__contains=[Scope.WORK, Scope.DECIDE]), name="key_never_works_and_decides"
            ),
            models.CheckConstraint(
                condition=models.Q(old_hash__isnull=True, old_until__isnull=True)
                | models.Q(old_hash__isnull=False, old_until__isnull=False),
                name="key_old_one_ends",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class CallCount(models.Model):
    """Calls of one caller since `begun_at`; begun anew by the first call after the window (`boards.keys.limits`)."""

    caller = models.CharField(max_length=100, primary_key=True)
    begun_at = models.DateTimeField(db_default=Now())
    count = models.PositiveIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["begun_at"], name="call_count_by_age")]

    def __str__(self) -> str:
        return self.caller

"""Boards, the names their tasks may be assigned to, and the counters behind their limits (spec: 03 sections 1-2)."""

from __future__ import annotations

from django.db import models
from django.db.models.expressions import RawSQL

from boards.models.fields import stamp, text
from boards.models.spaces import Space

DEFAULT_LEASE_MS = 120_000


class BoardQuerySet(models.QuerySet["Board"]):
    def with_version(self) -> BoardQuerySet:
        """With `version`: the transaction that wrote the row, by which a claim sees that it still stands so."""
        return self.annotate(version=RawSQL("boards_board.xmin::text", []))


class Board(models.Model):
    """One ledger of tasks in a space, with its limits and roster."""

    class Mode(models.TextChoices):
        PLAN = "plan", "Plan"
        DELEGATION = "delegation", "Delegation"

    class ClaimOrder(models.TextChoices):
        TOPOLOGICAL = "topological", "Oldest first"
        FIFO = "fifo", "First in, first out"
        PRIORITY = "priority", "Priority first"

    class OnIdle(models.TextChoices):
        COMPLETE = "complete"
        COMPLETE_OR_BLOCKED = "complete-or-blocked"
        WAIT = "wait"

    class OnError(models.TextChoices):
        SKIP = "skip"
        FAIL = "fail"

    class Scope(models.TextChoices):
        SPACE = "space"
        RUN = "run"

    class PartitionBy(models.TextChoices):
        NONE = "none"
        SESSION = "session"
        USER = "user"

    space = models.ForeignKey(Space, models.CASCADE, related_name="boards")
    slug = models.SlugField(max_length=80)
    name = models.CharField(max_length=200)
    mode = models.CharField(max_length=12, choices=Mode, default=Mode.PLAN)
    concurrency = models.PositiveIntegerField(default=4)
    claim_order = models.CharField(max_length=12, choices=ClaimOrder, default=ClaimOrder.TOPOLOGICAL)
    on_idle = models.CharField(max_length=20, choices=OnIdle, default=OnIdle.COMPLETE_OR_BLOCKED)
    lease_ms = models.BigIntegerField(default=DEFAULT_LEASE_MS)
    max_enqueued_tasks = models.PositiveIntegerField(null=True, blank=True, default=10_000)
    max_total_tasks = models.PositiveIntegerField(null=True, blank=True)
    max_total_retries = models.PositiveIntegerField(null=True, blank=True, default=50)
    on_error = models.CharField(max_length=4, choices=OnError, default=OnError.SKIP)
    default_worker = models.CharField(max_length=100, blank=True, default="")
    checker = models.CharField(max_length=100, default="none")
    send_back_spends_try = models.BooleanField(default=False)
    max_send_backs = models.PositiveIntegerField(default=3)
    input_schema = models.JSONField(null=True, blank=True)
    output_schema = models.JSONField(null=True, blank=True)
    retry_backoff_ms = models.PositiveIntegerField(default=0)
    dispatch_wait_ms = models.BigIntegerField(default=3_600_000)
    dispatches = models.BooleanField(default=True)
    initial_tasks = models.JSONField(default=list, blank=True)
    max_iterations = models.PositiveIntegerField(default=10_000)
    scope = models.CharField(max_length=5, choices=Scope, default=Scope.SPACE)
    partition_by = models.CharField(max_length=8, choices=PartitionBy, default=PartitionBy.NONE)
    paused = models.BooleanField(default=False)
    created_at = stamp()

    objects = BoardQuerySet.as_manager()
    version = ""  # of no row, where it was not read

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["space", "slug"], name="board_slug_once_per_space"),
            # Relied on by the claim: a span outside the range would never lapse, or lapse at once.
            models.CheckConstraint(
                condition=models.Q(lease_ms__gte=1_000, lease_ms__lte=6_442_450_941),
                name="board_lease_in_range",
            ),
            models.CheckConstraint(condition=models.Q(concurrency__gte=1), name="board_concurrency_at_least_one"),
        ]

    def __str__(self) -> str:
        return self.name


class BoardCounter(models.Model):
    """What a board's limits are compared with, per partition; locked before dependency rows (spec: 02 section 7)."""

    board = models.ForeignKey(Board, models.CASCADE)
    partition = text()
    filed_total = models.BigIntegerField(default=0)
    retries_granted = models.BigIntegerField(default=0)
    retries_day = models.DateField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["board", "partition"], name="counter_once_per_partition"),
            models.CheckConstraint(
                condition=models.Q(filed_total__gte=0, retries_granted__gte=0), name="counter_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"Counter of {self.board}"


class RosterEntry(models.Model):
    """A name that tasks of a board may be assigned to, and how it is run (spec: 03 section 2).

    `config` by kind: `python` {"worker": registered name}; `command` {"argv": [...], "cwd": relative folder,
    "env": [names], "time_limit_ms": int, "messages": "stdin" (as JSON lines)}; `person` uses `user`.
    """

    class Kind(models.TextChoices):
        PYTHON = "python", "Python function"
        COMMAND = "command", "Program"
        HTTP = "http", "HTTP endpoint"
        AGENT = "agent", "Model"
        PULL = "pull", "Outside worker"
        PERSON = "person", "Person"
        CELERY = "celery", "Celery queue"
        SESSION = "session", "Session"

    board = models.ForeignKey(Board, models.CASCADE, related_name="roster")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=10, choices=Kind)
    user = models.ForeignKey("boards.User", models.CASCADE, null=True, blank=True)
    config = models.JSONField(default=dict, blank=True)
    max_running = models.PositiveIntegerField(null=True, blank=True)
    # Whether its tasks stay open, once handed in, until those that they filed have ended (spec: 03 section 4.5).
    filed_work_keeps_open = models.BooleanField(default=True, db_default=True)
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "name"]
        constraints = [
            models.UniqueConstraint(fields=["board", "name"], name="roster_name_once_per_board"),
            models.CheckConstraint(
                condition=models.Q(kind="person", user__isnull=False) | ~models.Q(kind="person"),
                name="roster_person_has_user",
            ),
        ]

    def __str__(self) -> str:
        return self.name

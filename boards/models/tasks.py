"""The task's record (spec: 01 section 1), its dependency edges and the keys that make a repeat harmless.

Django reserves the field name `id` for the primary key, so the public id is `public_id` in Python and `id` in the
column and on the wire; `key` is the spec's internal `pk` (column `pk`), used by every hot write and by tickets.
"""

from __future__ import annotations

import uuid
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from boards.models.boards import Board
from boards.models.fields import stamp, text
from boards.models.sessions import Session
from boards.states import TERMINAL, Status

# Left out of everything that a browser or an API client can read; `boards.wire.task_wire` applies it.
SERVER_ONLY_TASK_FIELDS: Final = frozenset(
    {
        "key",
        "claimed_by",
        "created_by",
        "goal_hash",
        "grant_no",
        "resume_ready_at",
        "not_before",
        "unmet_deps",
        "open_holds",
        "write_log",
        "write_log_truncated",
        "visit",
    }
)


class Task(models.Model):
    """One unit of work on a board. State moves only through `boards.tasks`; never call `save()` on a stored row."""

    key = models.BigAutoField(primary_key=True, db_column="pk")
    # Every change of a row's state writes an entry into each of its indexes. So `board` has none of its own (that of
    # `task_id_once_per_partition` begins with it), and references that most rows lack are left out of theirs.
    board = models.ForeignKey(Board, models.CASCADE, related_name="tasks", db_index=False)
    partition = text()
    public_id = models.CharField(max_length=200, db_column="id", db_collation="C")
    incarnation_id = models.UUIDField(default=uuid.uuid4, editable=False)
    revision = models.PositiveBigIntegerField(default=1)

    goal = models.TextField()
    # md5 of the goal with case and spacing ignored, by which an open twin is found.
    goal_hash = models.CharField(max_length=32, default="", editable=False)
    title = models.CharField(max_length=200, blank=True, default="")
    context = text()
    input = models.JSONField(default=dict, blank=True)
    labels = ArrayField(models.TextField(), default=list, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    priority = models.IntegerField(default=0)
    due_at = models.DateTimeField(null=True, blank=True)
    assignee = models.CharField(max_length=100, blank=True, default="")
    checker = models.CharField(max_length=100, default="none")
    max_attempts = models.PositiveIntegerField(null=True, blank=True)
    follow_up_of = models.ForeignKey(
        "self", models.CASCADE, null=True, blank=True, related_name="follow_ups", db_index=False
    )
    filed_by_task = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="filed_tasks", db_index=False
    )
    filer = models.ForeignKey(Session, models.PROTECT, related_name="filed_tasks")
    created_by = models.ForeignKey("boards.User", models.SET_NULL, null=True, blank=True, db_index=False)
    filed_by = text()
    visit = models.ForeignKey(
        "boards.Visit", models.SET_NULL, null=True, blank=True, related_name="filed_tasks", db_index=False
    )
    stage = text()
    required = models.BooleanField(null=True, blank=True)

    status = models.CharField(max_length=12, choices=Status, default=Status.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    abandonments = models.PositiveIntegerField(default=0)
    retry_ledger = models.JSONField(null=True, blank=True)
    status_note = text()
    kept_open_by = models.CharField(max_length=10, blank=True, default="")
    unmet_deps = models.IntegerField(default=0)
    open_holds = models.IntegerField(default=0)
    grant_no = models.PositiveBigIntegerField(default=0)
    resume_ready_at = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    output = models.JSONField(null=True, blank=True)
    output_is_checkpoint = models.BooleanField(default=False)
    error = text()
    feedback = text()
    steers = models.JSONField(default=list, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    lease_duration_ms = models.BigIntegerField(null=True, blank=True)
    claimed_by = models.JSONField(null=True, blank=True)
    run = models.JSONField(null=True, blank=True)
    withdrawn = models.JSONField(null=True, blank=True)
    cancelled_via = models.CharField(max_length=10, blank=True, default="")
    created_at = stamp()
    updated_at = models.DateTimeField(db_default=Now(), editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    write_log = models.JSONField(default=list, blank=True)
    write_log_truncated = models.BooleanField(default=False)

    # Filled by reads of a root: the latest completed follow-up of its chain (`boards.tasks.reading`).
    current: Task | None = None

    class Meta:
        constraints = [
            # Relied on by filing: the winner of two filings under one id is decided here.
            models.UniqueConstraint(fields=["board", "partition", "public_id"], name="task_id_once_per_partition"),
            # Relied on by claims and the sweeper: a lease says that somebody works the row.
            models.CheckConstraint(
                condition=models.Q(lease_until__isnull=True) | models.Q(status=Status.IN_PROGRESS),
                name="task_lease_only_while_working",
            ),
            models.CheckConstraint(
                condition=models.Q(kept_open_by="") | models.Q(status=Status.IN_PROGRESS),
                name="task_kept_open_only_while_working",
            ),
            models.CheckConstraint(
                condition=models.Q(resume_ready_at__isnull=True) | models.Q(status=Status.IN_PROGRESS),
                name="task_resume_only_while_working",
            ),
            # Relied on by lanes and retention: an ended row says when, a live one never does.
            models.CheckConstraint(
                condition=models.Q(status__in=sorted(TERMINAL), completed_at__isnull=False)
                | (~models.Q(status__in=sorted(TERMINAL)) & models.Q(completed_at__isnull=True)),
                name="task_completed_at_iff_ended",
            ),
            models.CheckConstraint(
                condition=models.Q(unmet_deps__gte=0, open_holds__gte=0), name="task_counters_not_negative"
            ),
            models.CheckConstraint(condition=~models.Q(goal=""), name="task_goal_not_blank"),
            models.CheckConstraint(
                condition=models.Q(max_attempts__isnull=True) | models.Q(max_attempts__gte=1),
                name="task_max_attempts_at_least_one",
            ),
            # Relied on by the claim: follow-ups of one task run one at a time, whoever claims.
            models.UniqueConstraint(
                fields=["follow_up_of"],
                condition=models.Q(status=Status.IN_PROGRESS, follow_up_of__isnull=False),
                name="task_one_follow_up_at_work",
            ),
            models.CheckConstraint(
                condition=models.Q(withdrawn__isnull=True) | models.Q(status=Status.CANCELLED),
                name="task_withdrawn_is_cancelled",
            ),
        ]
        indexes = [
            # The claim's ready arm, one index range per assignee.
            models.Index(
                fields=["board", "assignee", "created_at", "key"],
                condition=models.Q(status=Status.PENDING, unmet_deps=0, open_holds=0),
                name="task_ready",
            ),
            models.Index(
                fields=["board", "assignee", "-priority", "created_at", "key"],
                condition=models.Q(status=Status.PENDING, unmet_deps=0, open_holds=0),
                name="task_ready_by_priority",
            ),
            # The claim's lapsed arm, the sweeper, and live leases counted for max_running.
            models.Index(
                fields=["board", "lease_until"],
                condition=models.Q(lease_until__isnull=False),
                name="task_leases",
            ),
            models.Index(
                fields=["board", "resume_ready_at"],
                condition=models.Q(resume_ready_at__isnull=False),
                name="task_resume_ready",
            ),
            # Filing asks whether the same goal is open already.
            models.Index(
                fields=["board", "goal_hash"],
                condition=~models.Q(status__in=sorted(TERMINAL)),
                name="task_open_goals",
            ),
            # Lanes of the board page, newest first, and their counts.
            models.Index(fields=["board", "status", "-updated_at", "-key"], name="task_lanes"),
            models.Index(
                fields=["follow_up_of"], condition=models.Q(follow_up_of__isnull=False), name="task_follow_ups"
            ),
            models.Index(
                fields=["filed_by_task"], condition=models.Q(filed_by_task__isnull=False), name="task_filed_by_task"
            ),
            # The sweeper's look at what is kept open by what it filed.
            models.Index(fields=["key"], condition=models.Q(kept_open_by="filed"), name="task_kept_by_filed"),
            models.Index(fields=["created_by"], condition=models.Q(created_by__isnull=False), name="task_by_creator"),
            models.Index(fields=["visit"], condition=models.Q(visit__isnull=False), name="task_by_visit"),
            models.Index(
                fields=["status", "board"],
                condition=models.Q(status__in=["errored", "needs_check"]),
                name="task_needs_you",
            ),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """What pages show: the title, else the goal's first line."""
        return (
            self.title or next((line.strip() for line in self.goal.splitlines() if line.strip()), self.public_id)[:200]
        )

    @property
    def is_ended(self) -> bool:
        return self.status in TERMINAL


class TaskDep(models.Model):
    """`dependent` may start only when `dependency` is completed."""

    # Without an index of its own: that of `dep_edge_once` begins with it.
    dependent = models.ForeignKey(Task, models.CASCADE, related_name="dep_edges", db_index=False)
    dependency = models.ForeignKey(Task, models.CASCADE, related_name="dependent_edges")

    class Meta:
        constraints = [
            # Relied on by the count-down: an edge counts once.
            models.UniqueConstraint(fields=["dependent", "dependency"], name="dep_edge_once"),
            models.CheckConstraint(condition=~models.Q(dependent=models.F("dependency")), name="dep_not_on_itself"),
        ]

    def __str__(self) -> str:
        return f"{self.dependent} waits for {self.dependency}"


class IdempotencyKey(models.Model):
    """Makes a repeat answer the first result. Holds the body's hash and the ids of the result, never the response."""

    caller = models.CharField(max_length=200)
    verb = models.CharField(max_length=50)
    key = models.CharField(max_length=200)
    body_hash = models.CharField(max_length=64)
    result = models.JSONField(null=True, blank=True)
    created_at = stamp()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["caller", "verb", "key"], name="idempotency_once_per_caller_and_verb")
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.key}"

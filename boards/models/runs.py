"""Flow runs, their visits, and what the one `advance` leaves behind (spec: 05 section 2)."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from boards.models.fields import stamp, text
from boards.models.flows import Flow, FlowVersion
from boards.models.sessions import Session
from boards.models.tasks import Task
from boards.states import Phase, RunStatus


class FlowRun(models.Model):
    """One execution of a flow version. Locked first by every write of the flow engine."""

    flow = models.ForeignKey(Flow, models.CASCADE, related_name="runs")
    version = models.ForeignKey(FlowVersion, models.PROTECT)
    number = models.PositiveBigIntegerField()
    name = models.CharField(max_length=200)
    status = models.CharField(max_length=10, choices=RunStatus, default=RunStatus.ACTIVE)
    inputs = models.JSONField(default=dict)
    data = models.JSONField(default=dict)
    session = models.ForeignKey(Session, models.PROTECT)
    current_visit = models.ForeignKey("boards.Visit", models.SET_NULL, null=True, blank=True, related_name="+")
    called_by = models.ForeignKey("boards.Visit", models.SET_NULL, null=True, blank=True, related_name="child_runs")
    signal = models.JSONField(null=True, blank=True)
    # The step whose place it takes, or took last; '' while it is queued. Kept in step with the visit by `runs.write`.
    step_key = models.CharField(max_length=80, blank=True, default="")
    # Since when it stands like that: entered, queued, ended or taken out of the archive.
    stands_since = models.DateTimeField(db_default=Now())
    # Set by the action `reset_context`: what earlier visits handed in is not told to the tasks of later steps.
    context_from = models.PositiveIntegerField(default=0)
    queued_step = models.CharField(max_length=80, blank=True, default="")
    queued_at = models.DateTimeField(null=True, blank=True)
    # Whether the entry events of the queued step are still to be run once it gets in.
    queued_entry = models.BooleanField(default=True)
    position = models.IntegerField(default=0)
    priority = models.IntegerField(default=0)
    started_by = models.ForeignKey("boards.User", models.SET_NULL, null=True, blank=True)
    started_by_name = text()
    error = text()
    revision = models.PositiveBigIntegerField(default=1)
    created_at = stamp()
    completed_at = models.DateTimeField(null=True, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["flow", "number"], name="run_number_once_per_flow"),
            models.CheckConstraint(
                condition=models.Q(status="active", completed_at__isnull=True)
                | (~models.Q(status="active") & models.Q(completed_at__isnull=False)),
                name="run_completed_at_iff_ended",
            ),
            # Relied on by promotion: what waits for a place takes none, and stands in no step.
            models.CheckConstraint(
                condition=models.Q(queued_step="", queued_at__isnull=True)
                | (
                    ~models.Q(queued_step="")
                    & models.Q(queued_at__isnull=False, current_visit__isnull=True, step_key="", status="active")
                ),
                name="run_queued_takes_no_place",
            ),
        ]
        indexes = [
            models.Index(fields=["flow", "status", "-id"], name="run_by_flow"),
            # Occupancy, and the cards of a column; those that are over are read newest first.
            models.Index(
                fields=["flow", "step_key", "position"],
                condition=models.Q(archived_at__isnull=True, status__in=["active", "failed"]),
                name="run_in_step",
            ),
            models.Index(
                fields=["flow", "-stands_since", "-id"],
                condition=models.Q(archived_at__isnull=True, status__in=["completed", "cancelled"]),
                name="run_over",
            ),
            models.Index(
                fields=["flow", "queued_step", "position", "-priority", "queued_at", "created_at", "id"],
                condition=models.Q(archived_at__isnull=True) & ~models.Q(queued_step=""),
                name="run_queued",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class StepSlot(models.Model):
    """The lock of the places of one step, over all versions of its flow; it holds no count, the runs themselves do."""

    flow = models.ForeignKey(Flow, models.CASCADE, related_name="slots")
    step_key = models.CharField(max_length=80)

    class Meta:
        # Relied on by admission: whoever decides on a place of a step waits for whoever does so already.
        constraints = [models.UniqueConstraint(fields=["flow", "step_key"], name="slot_once_per_step")]

    def __str__(self) -> str:
        return self.step_key


class Visit(models.Model):
    """One stay of a run in a step: it has the due time, the turn's task and the step's holds."""

    run = models.ForeignKey(FlowRun, models.CASCADE, related_name="visits")
    step_key = models.CharField(max_length=80)
    number = models.PositiveIntegerField()
    phase = models.CharField(max_length=8, choices=Phase, default=Phase.ENTERED)
    task = models.ForeignKey(Task, models.SET_NULL, null=True, blank=True, related_name="+")
    entered_at = stamp()
    left_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)
    output = models.JSONField(null=True, blank=True)
    error = text()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="visit_number_once_per_run"),
            # Relied on by `advance`: a run stands in one step at a time.
            models.UniqueConstraint(
                fields=["run"], condition=models.Q(left_at__isnull=True), name="visit_one_open_per_run"
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=models.Q(left_at__isnull=True, due_at__isnull=False),
                name="visit_due",
            )
        ]

    def __str__(self) -> str:
        return f"Visit {self.number} of {self.run} in {self.step_key}"


class Branch(models.Model):
    """One of several works of a visit: a branch of a `parallel`, a step of `on_failure`, a task of a `stage`.

    `outcome` says how it ended ("completed", "failed", "cancelled", "withdrawn"), '' while it has not. `round` counts
    how often the same works were started anew in one visit: iterations of a `loop`, failures of a step run again.
    """

    class Role(models.TextChoices):
        BRANCH = "branch"
        FAILURE = "failure"
        STAGE = "stage"

    visit = models.ForeignKey(Visit, models.CASCADE, related_name="branches")
    role = models.CharField(max_length=8, choices=Role)
    key = models.CharField(max_length=80)
    round = models.PositiveIntegerField(default=1)
    position = models.PositiveIntegerField()
    phase = models.CharField(max_length=8, choices=Phase, default=Phase.ENTERED)
    task = models.ForeignKey(Task, models.SET_NULL, null=True, blank=True, related_name="+")
    required = models.BooleanField(default=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=10, blank=True, default="")
    output = models.JSONField(null=True, blank=True)
    error = text()

    class Meta:
        ordering = ["round", "position", "id"]
        constraints = [
            # Relied on by the flow engine: a work of a visit is started once.
            models.UniqueConstraint(fields=["visit", "role", "round", "key"], name="branch_once_per_visit"),
            models.CheckConstraint(
                condition=models.Q(outcome="", ended_at__isnull=True)
                | (~models.Q(outcome="") & models.Q(ended_at__isnull=False)),
                name="branch_ended_says_how",
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"], condition=models.Q(ended_at__isnull=True, due_at__isnull=False), name="branch_due"
            ),
            models.Index(fields=["task"], condition=models.Q(task__isnull=False), name="branch_by_task"),
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.visit}"


class StepChange(models.Model):
    """History: one row per committed step change (spec: 05 section 2.8)."""

    class Trigger(models.TextChoices):
        START = "start"
        MANUAL = "manual"
        ON_TURN_COMPLETE = "on_turn_complete"
        APPROVAL = "approval"
        ON_TURN_START = "on_turn_start"
        CHILDREN_COMPLETED = "children_completed"
        QUEUE_PROMOTION = "queue_promotion"
        FAILURE = "failure"

    run = models.ForeignKey(FlowRun, models.CASCADE, related_name="history")
    from_step = models.CharField(max_length=80, blank=True, default="")
    to_step = models.CharField(max_length=80, blank=True, default="")
    trigger = models.CharField(max_length=20, choices=Trigger)
    actor = text()
    signal = models.JSONField(null=True, blank=True)
    at = stamp()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.from_step} to {self.to_step}"


class FlowOperation(models.Model):
    """An operation id that `advance` has applied; one applied twice does nothing."""

    run = models.ForeignKey(FlowRun, models.CASCADE, related_name="operations")
    operation_id = models.CharField(max_length=200)
    trigger = models.CharField(max_length=30)
    outcome = text()
    at = stamp()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "operation_id"], name="operation_once_per_run")]

    def __str__(self) -> str:
        return self.operation_id

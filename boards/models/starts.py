"""What starts runs from outside, and the events that runs wait for (spec: 05 section 7)."""

from __future__ import annotations

from django.db import models

from boards.models.fields import stamp, text
from boards.models.flows import Flow
from boards.models.runs import FlowRun, Visit


class Schedule(models.Model):
    """Starts a run of its flow whenever its expression is due. It acts as `author`, who saved it last.

    `error`: why it stopped by itself, or passed over the last time; '' where all is well.
    """

    flow = models.ForeignKey(Flow, models.CASCADE, related_name="schedules")
    expression = models.CharField(max_length=100)
    zone = models.CharField(max_length=64, default="UTC")
    inputs = models.JSONField(default=dict, blank=True)
    name_template = models.CharField(max_length=200, blank=True, default="")
    enabled = models.BooleanField(default=True)
    next_at = models.DateTimeField(null=True, blank=True)
    last_at = models.DateTimeField(null=True, blank=True)
    last_run = models.ForeignKey(FlowRun, models.SET_NULL, null=True, blank=True, related_name="+")
    error = text()
    author = models.ForeignKey("boards.User", models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = stamp()

    class Meta:
        ordering = ["id"]
        constraints = [
            # Relied on by the sweeper: what is paused is never due, and what is not always is some time.
            models.CheckConstraint(
                condition=models.Q(enabled=True, next_at__isnull=False) | models.Q(enabled=False, next_at__isnull=True),
                name="schedule_next_iff_enabled",
            )
        ]
        indexes = [models.Index(fields=["next_at"], condition=models.Q(enabled=True), name="schedule_due")]

    def __str__(self) -> str:
        return f"{self.expression} ({self.zone})"


class Webhook(models.Model):
    """An address that others post signed JSON to: it starts a run, or brings an event that runs wait for.

    `mapping`: input -> template over `payload`. `key`: the template of an event's key. It acts as `author`, who saved
    it last. A key of signatures that was replaced goes on for as long as `old_until` says.
    """

    class Kind(models.TextChoices):
        START = "start", "Starts a run"
        EVENT = "event", "Brings an event"

    flow = models.ForeignKey(Flow, models.CASCADE, related_name="webhooks")
    public_id = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.START)
    secret = models.CharField(max_length=100)
    old_secret = models.CharField(max_length=100, blank=True, default="")
    old_until = models.DateTimeField(null=True, blank=True)
    mapping = models.JSONField(default=dict, blank=True)
    name_template = models.CharField(max_length=200, blank=True, default="")
    key = models.CharField(max_length=500, blank=True, default="")
    enabled = models.BooleanField(default=True)
    error = text()
    last_at = models.DateTimeField(null=True, blank=True)
    author = models.ForeignKey("boards.User", models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = stamp()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name


class WebhookCall(models.Model):
    """One message that a webhook took, by the sender's id of it; a repeat is answered with `result`."""

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="calls")
    message_id = models.CharField(max_length=200)
    run = models.ForeignKey(FlowRun, models.SET_NULL, null=True, blank=True, related_name="+")
    result = models.JSONField(null=True, blank=True)
    at = stamp()

    class Meta:
        ordering = ["id"]
        # Relied on by the door: the same message at the same moment is done once.
        constraints = [models.UniqueConstraint(fields=["webhook", "message_id"], name="message_once_per_webhook")]
        indexes = [models.Index(fields=["at"], name="webhook_call_by_age")]

    def __str__(self) -> str:
        return self.message_id


class KeptEvent(models.Model):
    """An event with a key: kept until a step that waits for the key takes it, or for seven days."""

    flow = models.ForeignKey(Flow, models.CASCADE, related_name="events")
    key = models.CharField(max_length=200)
    payload = models.JSONField(null=True)
    webhook = models.ForeignKey(Webhook, models.SET_NULL, null=True, blank=True, related_name="+")
    received_at = stamp()
    # Relied on by waits: a step ends by one event at most.
    taken_by = models.OneToOneField(Visit, models.SET_NULL, null=True, blank=True, related_name="event")
    taken_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["flow", "key", "id"], condition=models.Q(taken_at__isnull=True), name="event_kept"),
            models.Index(fields=["received_at"], name="event_by_age"),
        ]

    def __str__(self) -> str:
        return self.key


class EventWait(models.Model):
    """The key that a stay in a `wait` step waits for; it waits for as long as the stay is open and has no output."""

    visit = models.OneToOneField(Visit, models.CASCADE, related_name="waits_for")
    flow = models.ForeignKey(Flow, models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["flow", "key", "id"], name="wait_by_key")]

    def __str__(self) -> str:
        return self.key

"""Being told: what each member wants to hear of and where, and what was sent to whom (spec: 04 section 4)."""

from __future__ import annotations

from datetime import time

from django.db import models

from boards.models.boards import Board
from boards.models.fields import stamp, text
from boards.models.holds import Hold
from boards.models.runs import FlowRun
from boards.models.spaces import Member
from boards.models.tasks import Task


class Preference(models.Model):
    """How a member is told. Everything is off until it is turned on; a member without a row has turned on nothing.

    `…_since`: when the channel was turned on; what waited before is not told. `muted_kinds` are values of
    `boards.telling.wants.KINDS`: what is new is told until it is muted. Quiet hours are the member's own clock.
    """

    class Pace(models.TextChoices):
        AT_ONCE = "at_once", "At once"
        HOURLY = "hourly", "Once an hour"
        DAILY = "daily", "Once a day"

    member = models.OneToOneField(Member, models.CASCADE, related_name="preference")
    zone = models.CharField(max_length=64, default="UTC")
    browser_since = models.DateTimeField(null=True, blank=True)
    sound = models.BooleanField(default=False)
    email_since = models.DateTimeField(null=True, blank=True)
    webhook_since = models.DateTimeField(null=True, blank=True)
    webhook_url = models.CharField(max_length=1_000, blank=True, default="")
    webhook_secret = models.CharField(max_length=100, blank=True, default="")
    muted_kinds = models.JSONField(default=list, blank=True)
    muted_boards = models.ManyToManyField(Board, blank=True, related_name="+")
    pace = models.CharField(max_length=8, choices=Pace, default=Pace.AT_ONCE)
    digest_at = models.TimeField(default=time(8))
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_to = models.TimeField(null=True, blank=True)
    tested_at = models.DateTimeField(null=True, blank=True)
    updated_at = stamp()

    class Meta:
        constraints = [
            # Relied on by the reckoning of quiet hours: both ends or none.
            models.CheckConstraint(
                condition=models.Q(quiet_from__isnull=True, quiet_to__isnull=True)
                | models.Q(quiet_from__isnull=False, quiet_to__isnull=False),
                name="preference_quiet_has_both_ends",
            ),
            models.CheckConstraint(
                condition=models.Q(webhook_since__isnull=True) | ~models.Q(webhook_url=""),
                name="preference_webhook_has_an_address",
            ),
        ]

    def __str__(self) -> str:
        return f"How {self.member} is told"


class Channel(models.TextChoices):
    EMAIL = "email", "E-mail"
    WEBHOOK = "webhook", "Webhook"


class Delivery(models.Model):
    """One occurrence that one member is told of on one channel. Its debt sends it, with whatever else is due then.

    `key` names the occurrence: a hold as it was asked, an event, a run's stay. `closed`: it was over, or no longer
    wanted, before it went out. Waiting without a debt: an operator dropped the debt.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "To be sent"
        SENT = "sent", "Sent"
        CLOSED = "closed", "Not needed any more"

    member = models.ForeignKey(Member, models.CASCADE, related_name="deliveries")
    channel = models.CharField(max_length=8, choices=Channel)
    key = models.CharField(max_length=200)
    kind = models.CharField(max_length=20)
    title = text()
    hold = models.ForeignKey(Hold, models.CASCADE, null=True, blank=True, related_name="deliveries")
    task = models.ForeignKey(Task, models.CASCADE, null=True, blank=True, related_name="+")
    run = models.ForeignKey(FlowRun, models.CASCADE, null=True, blank=True, related_name="+")
    # Ids of debts, and no foreign keys: the paying of any debt would have to look here. `debt_id` sends this;
    # `failed_debt_id` is the one that could not be paid, where that is what is told.
    debt_id = models.BigIntegerField(null=True, blank=True)
    failed_debt_id = models.BigIntegerField(null=True, blank=True)
    # What a flow told, by its event; the log outlives what it is about, so this is no foreign key either.
    event_id = models.BigIntegerField(null=True, blank=True)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    at = models.DateTimeField()
    created_at = stamp()
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            # Relied on by every sweeper that reads the log: nobody is told twice of one occurrence.
            models.UniqueConstraint(fields=["member", "channel", "key"], name="delivery_once_per_channel"),
            models.CheckConstraint(
                condition=models.Q(state="sent", sent_at__isnull=False)
                | (~models.Q(state="sent") & models.Q(sent_at__isnull=True)),
                name="delivery_sent_says_when",
            ),
        ]
        indexes = [
            models.Index(fields=["member", "channel", "-sent_at"], name="delivery_by_member"),
            models.Index(fields=["created_at"], name="delivery_by_age"),
            models.Index(
                fields=["debt_id"], condition=models.Q(state="waiting", debt_id__isnull=False), name="delivery_waiting"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.title[:80]} to {self.member.user.display}"


class LogReader(models.Model):
    """How far the event log was read by whoever writes deliveries; one row. "" where nobody is to be told."""

    name = models.CharField(max_length=20, primary_key=True)
    cursor = text()
    read_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name

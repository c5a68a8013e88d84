"""The append-only event log and its epoch (spec: 07 section 1)."""

from __future__ import annotations

import uuid

from django.db import models

from boards.models.boards import Board
from boards.models.fields import CurrentXid, Xid8Field, stamp, text
from boards.models.runs import FlowRun
from boards.models.spaces import Space
from boards.models.tasks import Task


class Event(models.Model):
    """One recorded write. `chain` is a list of hops {"kind", "name", "id"}; the last is the acting one."""

    # Three events a task, written by the engines alone and in the transaction that holds what they are about: the
    # database need not look that space and board exist, once more for each. Nothing reads the log by space.
    space = models.ForeignKey(Space, models.CASCADE, db_constraint=False, db_index=False)
    # The indexes below begin with these three, so they need none of their own.
    board = models.ForeignKey(
        Board, models.CASCADE, null=True, blank=True, related_name="events", db_constraint=False, db_index=False
    )
    # The log is the audit: it keeps the key of a task that retention removed (`boards.tasks.retention`).
    task = models.ForeignKey(
        Task,
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="events",
        db_constraint=False,
        db_index=False,
    )
    run = models.ForeignKey(FlowRun, models.CASCADE, null=True, blank=True, related_name="events", db_index=False)
    kind = models.CharField(max_length=40)
    chain = models.JSONField(default=list)
    cause = text()
    from_status = models.CharField(max_length=12, blank=True, default="")
    to_status = models.CharField(max_length=12, blank=True, default="")
    attempt = models.PositiveIntegerField(default=0)
    data = models.JSONField(default=dict)
    at = stamp()
    xid = Xid8Field(db_default=CurrentXid(), editable=False)

    class Meta:
        ordering = ["id"]
        indexes = [
            # Catch-up reads this index only.
            models.Index(fields=["board", "xid", "id"], include=["task", "run", "kind"], name="event_catch_up"),
            models.Index(fields=["task", "id"], name="event_by_task"),
            models.Index(fields=["run", "id"], condition=models.Q(run__isnull=False), name="event_by_run"),
            # What flows told people lately, of which a member's own are counted on every page.
            models.Index(fields=["space", "at"], condition=models.Q(kind="run.notified"), name="event_told"),
        ]

    def __str__(self) -> str:
        return self.kind

    @property
    def actor(self) -> str:
        """The name of the acting hop, as people read it."""
        return str(self.chain[-1].get("name", "")) if self.chain else ""


class LogEpoch(models.Model):
    """Transaction ids belong to one cluster: a restored database starts a new epoch (engineering notes, section 3)."""

    uuid = models.UUIDField(default=uuid.uuid4, editable=False)
    system_identifier = models.CharField(max_length=40)
    at = stamp()

    def __str__(self) -> str:
        return str(self.uuid)

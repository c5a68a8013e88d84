"""Flows as rows: a flow, its immutable versions, their steps (spec: 05 section 1)."""

from __future__ import annotations

from django.db import models

from boards.models.boards import Board
from boards.models.fields import stamp, text
from boards.models.spaces import Space


class Flow(models.Model):
    class Style(models.TextChoices):
        PIPELINE = "pipeline"
        BOARD = "board"

    space = models.ForeignKey(Space, models.CASCADE, related_name="flows")
    board = models.ForeignKey(Board, models.PROTECT, related_name="flows")
    key = models.SlugField(max_length=80)
    name = models.CharField(max_length=200)
    description = text()
    last_run_number = models.PositiveBigIntegerField(default=0)
    created_at = stamp()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["space", "key"], name="flow_key_once_per_space")]

    def __str__(self) -> str:
        return self.name


class FlowVersion(models.Model):
    """Immutable. `settings` holds what stands above the steps: prompt, agent, style, inputs."""

    flow = models.ForeignKey(Flow, models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    settings = models.JSONField(default=dict)
    created_by = models.ForeignKey("boards.User", models.SET_NULL, null=True, blank=True)
    created_at = stamp()

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["flow", "number"], name="version_number_once_per_flow")]

    def __str__(self) -> str:
        return f"{self.flow}, version {self.number}"


class FlowStep(models.Model):
    """One step of a version; `settings` holds every field but key, name, position and kind, as in the YAML."""

    version = models.ForeignKey(FlowVersion, models.CASCADE, related_name="steps")
    key = models.SlugField(max_length=80)
    name = models.CharField(max_length=200)
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=12)
    settings = models.JSONField(default=dict)

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["version", "key"], name="step_key_once_per_version"),
            models.UniqueConstraint(fields=["version", "position"], name="step_position_once_per_version"),
        ]

    def __str__(self) -> str:
        return self.name

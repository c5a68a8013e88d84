"""Reads `/metrics` as Prometheus does, and what a test looks up in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

TOKEN = "a-token-of-the-tests-alone"


@dataclass(frozen=True)
class Page:
    """An answer; `samples` by name and labels."""

    status: int
    text: str
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float]
    families: dict[str, str]

    def of(self, name: str, **labels: str) -> float:
        return self.samples[f"orchestra_{name}", frozenset(labels.items())]

    def on(self, name: str, board: str = "desk", **labels: str) -> float:
        return self.of(name, space="halyard", board=board, **labels)

    @property
    def boards(self) -> set[str]:
        return {dict(labels)["board"] for _name, labels in self.samples if "board" in dict(labels)}

    def tasks(self, board: str = "desk") -> dict[str, int]:
        """By status, without those of which there are none."""
        found = {
            dict(labels)["status"]: int(value)
            for (name, labels), value in self.samples.items()
            if name == "orchestra_tasks" and dict(labels)["board"] == board
        }
        return {status: count for status, count in found.items() if count}


def read(client: Client | None = None, bearer: str = TOKEN, **extra: Any) -> Page:
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    answer = (client or Client()).get("/metrics", headers=headers, **extra)
    text = answer.content.decode()
    families = list(text_string_to_metric_families(text)) if answer.status_code == 200 else []
    samples = {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}
    assert len(samples) == sum(len(family.samples) for family in families)  # none is told twice
    return Page(answer.status_code, text, samples, {family.name: family.type for family in families})

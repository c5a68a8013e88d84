"""The examples of docs/flows.md and the ready templates, run from their start to their end by the real engine."""

from __future__ import annotations

import re

import pytest

from boards import flows
from boards.flows import library
from boards.flows.validation import validate
from boards.models import RosterEntry
from tests.flows.cast import Stage
from tests.flows.driving import drive
from tests.flows.test_documented import EXAMPLES

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("title", "text", "path"), EXAMPLES, ids=[title for title, _, _ in EXAMPLES])
def test_each_example_runs_as_the_page_says(stage: Stage, title: str, text: str, path: str) -> None:
    flow = flows.save_version(stage.olga, stage.space, stage.board, validate(text))
    run = flows.start(stage.anna, flow, {})
    assert drive(stage, run) == re.split(r",\s*", path)


PATHS = {
    "kanban": ["in-progress", "review"],
    "plan-and-build": ["plan", "approve", "build", "done"],
    "pr-review": ["read", "sum-up", "any", "approve", "post", "done"],
    "research-and-write": ["research", "write", "approve", "done"],
    "review-gate": ["work", "review", "gate", "done"],
}


@pytest.mark.parametrize("key", [key for key in library.template_keys() if key != "release-notes"])
def test_each_ready_template_runs(stage: Stage, key: str) -> None:
    flow = library.add_template(stage.olga, stage.space, key)
    assert RosterEntry.objects.filter(board=flow.board).exists()
    schema = library.newest(stage.space, key).inputs
    run = flows.start(stage.anna, flow, dict.fromkeys(schema["required"], "Halyard 2.0"))
    assert drive(stage, run, stops_in="" if PATHS[key][-1] == "done" else PATHS[key][-1]) == PATHS[key]

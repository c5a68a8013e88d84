"""What a filing over HTTP may not hold, each field named; what every code is provoked by: `test_every_code`."""

from __future__ import annotations

from typing import Any

import pytest

from boards.api.shapes_of_tasks import TaskFields
from boards.models import Task
from tests.api.cast import Desk

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("goal", 5),
        ("goal", None),
        ("title", ["a"]),
        ("context", {}),
        ("input", "text"),
        ("input", [1]),
        ("labels", "one"),
        ("labels", [5]),
        ("metadata", {"orchestra:x": 1}),
        ("priority", "high"),
        ("priority", True),
        ("priority", 10**12),
        ("due_at", "tomorrow"),
        ("due_at", "2030-01-01T00:00:00"),
        ("due_at", 5),
        ("due_at", "0001-01-01T00:00:00+00:00"),
        ("deps", "one"),
        ("deps", [[1]]),
        ("assignee", 5),
        ("max_attempts", 0),
        ("max_attempts", 1.5),
        ("checker", 7),
        ("held", "yes"),
        ("id", "no spaces"),
        ("id", 7),
        ("follow_up_of", "../x"),
        ("follow_up_of", {}),
        ("holds", [{"kind": "approval", "prompt": "x"}]),
        ("holds", [{"kind": "question"}]),
        ("holds", [{"kind": "question", "prompt": 5}]),
        ("holds", [{"kind": "question", "prompt": "x", "options": [{"value": "a"}]}]),
        ("holds", "x"),
        ("status", "completed"),
        ("attempts", 3),
        ("stage", "x"),
        ("claimed_by", {}),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(desk: Desk, field: str, value: Any) -> None:
    answer = desk.by_key("file")("POST", "/boards/desk/tasks", {"goal": "New", field: value})
    assert (answer.status, answer.code) == (422, "invalid_input"), answer.body
    assert answer.body["field"] == field or field in {"deps", "follow_up_of"}, answer.body
    assert Task.objects.count() == 0


@pytest.mark.parametrize("option", ["wait", "deadline_ms"])
def test_a_filing_that_would_wait_is_refused_with_its_own_code(desk: Desk, option: str) -> None:
    for caller in (desk.by_key("file"), desk.signed_in()):
        one = caller("POST", "/boards/desk/tasks", {"goal": "Go", option: 30_000})
        assert (one.status, one.code, one.body["field"]) == (422, "create_task_does_not_wait", option)
        many = caller("POST", "/boards/desk/batch", {"tasks": [{"goal": "Go"}, {"goal": "On", option: True}]})
        assert (many.status, many.code, many.body["index"]) == (422, "create_task_does_not_wait", 1)
        beside = caller("POST", "/boards/desk/batch", {"tasks": [{"goal": "Go"}], option: True})
        assert (beside.status, beside.code) == (422, "create_task_does_not_wait")
    assert not Task.objects.exists()


def test_the_same_goal_twice_in_one_batch_is_refused(desk: Desk) -> None:
    answer = desk.by_key("file")("POST", "/boards/desk/batch", {"tasks": [{"goal": "Go"}, {"goal": "go "}]})
    assert (answer.status, answer.code, answer.body["index"]) == (409, "already_open", 1)
    assert "“Go”" in answer.detail


@pytest.mark.parametrize(
    "name", sorted({field.name for field in Task._meta.concrete_fields} - TaskFields.model_fields.keys() - {"status"})
)
def test_what_the_server_sets_is_named_in_no_filing_and_no_edit(desk: Desk, name: str) -> None:
    task = desk.filed()
    call = desk.signed_in()
    for answer in (
        call("POST", "/boards/desk/tasks", {"goal": "New", name: 1}),
        call("PATCH", f"/boards/desk/tasks/{task.public_id}", {name: 1}),
    ):
        assert (answer.status, answer.code, answer.body["field"]) == (422, "invalid_input", name)
    assert Task.objects.get().revision == 1

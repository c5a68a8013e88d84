"""What a question says by itself: silence, drafts, and the fields of a schema; pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.http import QueryDict

from boards.queries.drafts import draft_view
from boards.queries.schema_fields import fields_of, kind_of
from boards.queries.silence import Asked, silence
from boards.web.inputs import read_inputs

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


@pytest.mark.parametrize(
    ("asked", "at", "short", "then"),
    [
        (Asked("approval"), None, "", "goes on waiting"),
        (Asked("question", NOON), NOON, "then overdue", "goes on waiting"),
        (Asked("question", NOON, "safe mode"), NOON, "then “safe mode”", "the answer is “safe mode”"),
        (Asked("confirm", NOON), NOON, "then overdue", "goes on waiting"),
        (Asked("approval", NOON), NOON, "then a no", "reads as a no"),
        (Asked("approval", NOON, on_step=True), NOON, "then a no", "its way for a no"),
        (Asked("gate", NOON), NOON, "then discarded", "nothing goes out"),
        (Asked("review", NOON), NOON, "then the attempt fails", "the attempt fails"),
        (Asked("input", NOON, on_step=True), NOON, "then the step fails", "the step fails"),
        (Asked("question", visit_due_at=NOON), NOON, "then withdrawn", "withdraws the task"),
        (Asked("approval", LATER, visit_due_at=NOON), NOON, "then withdrawn", "withdraws the task"),
        (Asked("approval", NOON, visit_due_at=LATER), NOON, "then a no", "reads as a no"),
    ],
)
def test_what_happens_when_nobody_answers_and_when(asked, at, short, then):
    told = silence(asked)
    assert (told.at, told.short) == (at, short)
    assert then in told.then


@pytest.mark.parametrize(
    ("draft", "title", "kind", "rest"),
    [
        ("# Notes", "", "markdown", ""),
        ({"markdown": "# Notes"}, "", "markdown", ""),
        ({"title": "2.4", "body": "Text", "payload": {"to": "all"}}, "2.4", "markdown", '"to": "all"'),
        ({"subject": "Hi", "text": "Text"}, "Hi", "markdown", ""),
        ({"a": 1, "b": [1, 2]}, "", "tree", ""),
        ([{"a": 1}, {"a": 2}], "", "table", ""),
        ("https://example.com/x", "", "link", ""),
        (7, "", "tree", ""),
    ],
)
def test_a_draft_is_shown_as_what_it_is(draft, title, kind, rest):
    view = draft_view(draft, "a41f9c00")
    assert (view.title, view.body.kind, view.short_hash) == (title, kind, "a41f9c")
    assert rest in view.rest


def test_a_difference_is_split_into_its_lines():
    text = "--- a/x\n+++ b/x\n@@ -3,3 +3,3 @@ here\n one\n-two\n+TWO\n three"
    view = draft_view({"diff": text, "title": "Change"})
    assert view.title == "Change"
    assert [(line.number, line.mark, line.text) for line in view.diff[3:]] == [
        (3, "", "one"),
        (4, "del", "two"),
        (4, "add", "TWO"),
        (5, "", "three"),
    ]
    assert draft_view("- a list\n- is no difference").body.kind == "markdown"


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({}, "text"),
        ({"type": "string", "maxLength": 5000}, "long"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "integer"}, "integer"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "yesno"),
        ({"enum": ["a"]}, "choice"),
        ({"type": "array", "items": {"enum": ["a"]}}, "many"),
        ({"type": "array", "items": {"type": "string"}}, "json"),
        ({"type": ["string", "null"]}, "json"),
        ({"$ref": "#/x"}, "json"),
        ({"maxLength": "odd"}, "text"),
    ],
)
def test_each_property_gets_the_control_that_fits(rule, kind):
    assert kind_of(rule) == kind


def test_fields_come_in_their_authors_order_where_it_is_known():
    schema = {"properties": {"to": {}, "from": {}, "repo": {}}, "required": ["repo"]}
    assert [field.name for field in fields_of(schema)] == ["repo", "to", "from"]
    assert [field.name for field in fields_of(schema, order=["repo", "from", "to", "gone"])] == ["repo", "from", "to"]


@pytest.mark.parametrize(
    "schema", [None, [], "x", {}, {"properties": []}, {"properties": {"a": "odd"}, "required": "a"}]
)
def test_an_odd_schema_breaks_nothing(schema):
    assert all(field.kind == "text" for field in fields_of(schema))


def test_what_was_typed_becomes_what_the_schema_means():
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"}, "x": {"type": "number"}, "on": {"type": "boolean"}, "t": {"type": "string"},
            "left": {"type": "string"}, "j": {"type": "array"},
        },
    }  # fmt: skip
    form = QueryDict("in.n=7&in.x=%E2%88%922.5&in.on=yes&in.t=a%0D%0Ab&in.left=&in.j=[1]")
    filled = read_inputs(schema, form)
    assert filled.ok
    assert filled.values == {"n": 7, "x": -2.5, "on": True, "t": "a\nb", "j": [1]}


@pytest.mark.parametrize("typed", ["nan", "inf", "1e999", "twelve", "1.5"])
def test_no_number_is_said_at_its_field_and_kept(typed):
    filled = read_inputs({"properties": {"n": {"type": "integer"}}}, QueryDict(f"in.n={typed}"))
    assert not filled.ok
    assert (filled.fields[0].value, filled.fields[0].error) == (typed, "Write a whole number.")

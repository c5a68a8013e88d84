"""Schemas that workers and authors wrote: they judge, or it is said why they cannot."""

from __future__ import annotations

import pytest

from boards.schemas import BadSchema, faults

REMOTE = "http://127.0.0.1:9/schema.json"


def test_a_schema_judges() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert faults(schema, {"a": 1}) == []
    assert [list(error.absolute_path) for error in faults(schema, {"a": "x"})] == [["a"]]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": REMOTE},
        {"properties": {"a": {"$ref": REMOTE}}},
        {"$ref": "file:///etc/hostname"},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"type": "nothing"},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": []},
        {"required": 5},
        7,
    ],
)
def test_what_cannot_judge_is_said(schema: object) -> None:
    with pytest.raises(BadSchema, match=r"^The schema .+\.$"):
        faults(schema, {"a": "x"})

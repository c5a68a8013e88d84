"""The examples of docs/flows.md: read out of the page, judged, and run; and its tables against the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from boards.flows import kinds, library
from boards.flows.actions import ACTIONS
from boards.flows.definition import STEP_DEFAULTS
from boards.flows.validation import validate, validate_document

PAGE = (Path(__file__).parents[2] / "docs" / "flows.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"### (\d+\. [^\n]+)\n\n```yaml\n(.*?)```\n\nGoes through: ([^\n]+)\n", PAGE, re.DOTALL)


def test_there_are_ten_examples_and_the_first_one_of_the_page() -> None:
    assert [title.split(".")[0] for title, _, _ in EXAMPLES] == [str(n) for n in range(1, 11)]
    first = re.search(r"```yaml\n(version: 1.*?)```", PAGE, re.DOTALL)
    assert first is not None
    assert validate_document(first[1]).flows[0].key == "notes"


@pytest.mark.parametrize(("title", "text", "path"), EXAMPLES, ids=[title for title, _, _ in EXAMPLES])
def test_each_example_is_valid(title: str, text: str, path: str) -> None:
    flow = validate(text)
    assert [flow.step(key.strip()) is not None for key in path.split(",")] == [True] * len(path.split(","))


def test_every_kind_action_field_and_template_is_on_the_page() -> None:
    for word in [*kinds.FIELDS, *ACTIONS, *STEP_DEFAULTS, *library.template_keys()]:
        assert f"`{word}`" in PAGE, word


def test_a_field_stands_beside_the_kinds_on_which_it_has_an_effect() -> None:
    table = PAGE.partition("## The kinds")[2].partition("## Events")[0]
    rows = dict(re.findall(r"^\| (`[^|]+`) \| [^|]* \| ([^|]*) \|", table, re.MULTILINE))
    told = {kind: fields for named, fields in rows.items() for kind in re.findall(r"`(\w+)`", named)}
    for kind, fields in kinds.FIELDS.items():
        if kind != "column":
            for field in fields:
                assert f"`{field}`" in told[kind], (kind, field)

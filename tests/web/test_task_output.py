"""How a value is shown is decided by what it is, and everything has a limit."""

from __future__ import annotations

import pytest

from boards.queries.task_output import MAX_NODES, MAX_ROWS, MAX_TEXT, changes, shown


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "none"),
        ({}, "none"),
        ("Done **well**", "markdown"),
        ({"markdown": "# Done"}, "markdown"),
        ("https://example.org/notes", "link"),
        ({"url": "https://example.org/notes"}, "link"),
        ({"url": "javascript:alert(1)"}, "tree"),
        ({"file": "out/notes.md"}, "text"),
        ([{"a": 1, "b": None}, {"a": 2}], "table"),
        ({"rows": [{"a": 1}]}, "table"),
        ([{"a": {"b": 1}}], "tree"),
        ([1, 2, 3], "tree"),
        ({"a": 1, "b": [1]}, "tree"),
        (7, "tree"),
        (False, "tree"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_the_kind_follows_the_value(value, kind):
    assert shown(value).kind == kind


def test_a_table_keeps_the_order_of_its_columns_and_leaves_holes_empty():
    table = shown([{"b": 1, "a": True}, {"a": "x"}])
    assert table.columns == ("b", "a")
    assert table.rows == (("1", "true"), ("", "x"))


def test_what_is_too_much_is_cut_with_a_note():
    assert shown("x" * (MAX_TEXT + 5)).cut
    assert "5 more rows" in shown([{"a": n} for n in range(MAX_ROWS + 5)]).cut
    assert shown({"a": list(range(MAX_NODES + 5))}).cut
    deep: object = 1
    for _ in range(200):
        deep = {"a": deep}
    assert shown(deep).kind == "tree"


def test_a_difference_has_numbers_marks_and_gaps():
    old = "\n".join(f"line {n}" for n in range(30))
    new = old.replace("line 3\n", "line three\n").replace("line 25", "line 25, mended")
    lines = changes({"markdown": old}, {"markdown": new})
    assert [line.mark for line in lines].count("gap") == 1
    assert ("del", "line 3") in [(line.mark, line.text) for line in lines]
    assert ("add", "line three") in [(line.mark, line.text) for line in lines]
    assert changes("same", "same") == []

"""Stored text is cleaned, sizes are refused or cut, blank-looking titles are refused (faults 22-23)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boards.errors import InvalidInput
from boards.stored_text import clean_text
from boards.tasks import cleaning


@given(st.text(alphabet=st.characters()))
def test_any_text_can_be_stored(value):
    cleaned = clean_text(value)
    assert "\x00" not in cleaned
    cleaned.encode()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(alphabet=st.characters()), st.lists))
def test_any_json_can_be_stored(value):
    text = str(cleaning.report_json({"value": value}))
    assert "\x00" not in text
    text.encode()


def test_a_nul_escape_after_backslashes_is_found_and_a_spelled_one_is_kept():
    assert cleaning.clean_json({"a": "x\x00y"}, "input") == {"a": "x\ufffdy"}
    assert cleaning.clean_json({"a": "\\u0000"}, "input") == {"a": "\\u0000"}
    assert cleaning.clean_json({"a": "\\\x00"}, "input") == {"a": "\\\ufffd"}


@pytest.mark.parametrize("title", ["\u200b\u200d", " \u2060 ", "\u3164", "\ufeff"])
def test_a_title_that_looks_blank_is_refused(title):
    with pytest.raises(InvalidInput, match="looks blank"):
        cleaning.checked_title(title)


@pytest.mark.parametrize("title", ["🎉", "日本語", "مرحبا", "e\u0301", ""])
def test_titles_of_any_script_are_kept(title):
    assert cleaning.checked_title(title) == title


def test_what_is_filed_over_a_limit_is_refused_and_what_is_reported_is_cut():
    with pytest.raises(InvalidInput, match="200 characters"):
        cleaning.checked_title("x" * 201)
    with pytest.raises(InvalidInput, match="1 MiB"):
        cleaning.checked_object({"a": "x" * 1_100_000}, "input")
    assert cleaning.report_json("x" * 1_100_000)["cut"]
    assert cleaning.report_json("\U0001f600" * 300_000)["cut"], "bytes are counted, not characters"
    assert cleaning.report_line("x" * 5_000_000).endswith("[cut at 64 KiB]")
    assert cleaning.report_line("\U0001f980" * 16_384) == "\U0001f980" * 16_384
    wide = cleaning.report_line("\ud800" + "\U0001f980" * 16_384)  # bytes are counted, and no sign is cut in two
    assert wide == "\ufffd" + "\U0001f980" * 16_383 + " … [cut at 64 KiB]"


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
def test_what_does_not_survive_json_is_refused_in_words(value):
    with pytest.raises(InvalidInput, match="plain JSON"):
        cleaning.clean_json(value, "input")


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "é", "x" * 201])
def test_an_id_is_one_segment_of_an_address(name):
    with pytest.raises(InvalidInput):
        cleaning.checked_id(name)


def test_reserved_metadata_is_refused():
    with pytest.raises(InvalidInput, match="belong to the system"):
        cleaning.checked_metadata({"orchestra:x": 1})


def test_goals_that_differ_in_case_and_spacing_are_the_same():
    assert cleaning.goal_hash(" Write  the\nNotes ") == cleaning.goal_hash("write the notes")

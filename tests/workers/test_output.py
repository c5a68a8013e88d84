"""Splitting of output into lines, and the search for the result among them."""

from __future__ import annotations

import pytest

from boards.workers.adapters.output import CUT_NOTE, MAX_LINE, MAX_RAW, Allowance, Lines, ResultLine


def lines_of(*chunks: bytes) -> list[str]:
    found: list[str] = []
    lines = Lines(found.append)
    for chunk in chunks:
        lines.feed(chunk)
    lines.close()
    return found


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"o", b"ne\ntw", b"o"], ["one", "two"]),
        ([b"\n\nx\n"], ["", "", "x"]),
        ([b"windows\r\n"], ["windows"]),
        (["Gr\u00fc\u00dfe".encode()[:3], "Gr\u00fc\u00dfe".encode()[3:]], ["Gr\u00fc\u00dfe"]),
        ([b"\xff\xfe"], ["\ufffd\ufffd"]),
        ([b"\x1b[31mred\x1b[0m"], ["\x1b[31mred\x1b[0m"]),
        ([], []),
    ],
)
def test_chunks_become_lines(chunks: list[bytes], expected: list[str]) -> None:
    assert lines_of(*chunks) == expected


def test_a_line_of_exactly_the_limit_is_whole() -> None:
    assert lines_of(b"x" * MAX_LINE) == ["x" * MAX_LINE]


def test_a_longer_line_is_cut_and_the_next_one_is_not() -> None:
    assert lines_of(b"x" * (MAX_LINE + 1) + b"\nnext") == ["x" * MAX_LINE + CUT_NOTE, "next"]


def test_a_line_without_end_costs_no_endless_memory() -> None:
    lines = Lines(lambda text: None)
    for _ in range(40):
        lines.feed(b"x" * 1_000_000)
    assert len(lines._buffer) == MAX_RAW


def test_the_last_object_wins_and_other_lines_do_not_matter() -> None:
    result = ResultLine()
    for raw in [b'{"a": 1}', b'  {"a": 2}  ', b"{broken}", b"text", b"[3]"]:
        result.look(raw, True)
    assert (result.found, result.output) == (True, {"a": 2})


def test_the_note_of_too_much_output_is_said_once() -> None:
    said: list[str] = []
    allowance = Allowance(said.append, lines=19_999)
    assert [allowance.admits("x") for _ in range(3)] == [True, False, False]
    assert len(said) == 1

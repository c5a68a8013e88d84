"""What changed from one version to another, in words and line by line."""

from __future__ import annotations

import textwrap

import pytest

from boards.flows.differences import Line, difference
from boards.flows.validation import validate
from tests.flows.cast import REVIEWED

OLD = textwrap.dedent(REVIEWED)


def words(*changes: tuple[str, str]) -> tuple[str, ...]:
    new = OLD
    for old, other in changes:
        assert old in new
        new = new.replace(old, other)
    return difference(validate(OLD), validate(new)).words


def test_the_same_differs_in_nothing() -> None:
    told = difference(validate(OLD), validate(OLD))
    assert (told.words, told.lines) == ((), ())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("name: Reviewed", "name: Looked at"), '"name" was “Reviewed” and is “Looked at” now.'),
        (("key: reviewed", "key: reviewed\nagent: writer"), '"agent" is set to “writer”.'),
        (("topic: {type: string}", "topic: {type: number}"), '"inputs" has changed.'),
        (
            ("prompt: Is it right?", "prompt: Is it good?"),
            'Approve: "prompt" was “Is it right?” and is “Is it good?” now.',
        ),
        (("kind: approval", "kind: approval\n    timeout_ms: 5"), 'Approve: "timeout_ms" is set to 5.'),
        (("    prompt: Is it right?\n", ""), 'Approve: "prompt" is no longer set; it was “Is it right?”.'),
        (
            ("        - {type: move_to_step, step: write, when: not output.approved}\n", ""),
            'Approve: "events" has changed.',
        ),
        (
            ("kind: approval", "kind: approval\n    cancel_triggers_turn_complete: true"),
            'Approve: "cancel_triggers_turn_complete" was false and is true now.',
        ),
        (
            ('  - {key: read, name: Read, kind: agent, assignee: reader, prompt: "Read it."}\n', ""),
            'The step Read ("read") is gone.',
        ),
        (
            ("  - {key: done", "  - {key: wait, name: Wait, kind: wait, duration_ms: 5}\n  - {key: done"),
            'The step Wait ("wait", wait) is new, after Read.',
        ),
        (
            ("steps:\n", "steps:\n  - {key: first, name: First}\n"),
            'The step First ("first", column) is new, at the beginning.',
        ),
    ],
)
def test_each_change_is_a_sentence(change: tuple[str, str], said: str) -> None:
    assert words(change) == (said,)


def test_another_order_is_said() -> None:
    moved = OLD.replace("kind: approval", "kind: approval\n    position: 0").replace(
        "{key: write", "{position: 1, key: write"
    )
    moved = moved.replace("{key: read", "{position: 2, key: read").replace("{key: done", "{position: 3, key: done")
    assert difference(validate(OLD), validate(moved)).words == (
        "The steps stand in another order: Approve, Write, Read, Done.",
    )


def test_long_texts_are_not_repeated_in_words() -> None:
    assert words(("Is it right?", "x" * 81)) == ('Approve: "prompt" has changed.',)


def test_the_lines_are_those_of_the_two_texts() -> None:
    lines = difference(validate(OLD), validate(OLD.replace("Is it right?", "Is it good?"))).lines
    assert Line("removed", "        prompt: Is it right?") in lines
    assert Line("added", "        prompt: Is it good?") in lines
    assert lines[0].kind == "gap", "what is the same far above is folded"
    assert sum(line.kind == "same" for line in lines) == 6

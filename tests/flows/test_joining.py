"""When several works are over: joins of a parallel, the end of a stage, and votes of a quorum; as tables."""

from __future__ import annotations

import pytest

from boards.errors import InvalidInput
from boards.flows.joining import Joined, Staged, joined, staged
from boards.people import votes

DONE, BAD, GONE, LATE, OPEN = "completed", "failed", "cancelled", "withdrawn", ""


@pytest.mark.parametrize(
    ("rule", "outcomes", "how"),
    [
        ("all", [DONE, DONE], Joined.MET),
        ("all", [DONE, OPEN], Joined.OPEN),
        ("all", [DONE, BAD], Joined.MISSED),
        ("all", [OPEN, BAD], Joined.MISSED),
        ("all", [OPEN, GONE], Joined.MISSED),
        ("all", [LATE, OPEN], Joined.MISSED),
        ("all", [], Joined.MET),
        ("any", [OPEN, DONE], Joined.MET),
        ("any", [OPEN, BAD], Joined.OPEN),
        ("any", [BAD, GONE], Joined.MISSED),
        ("any", [LATE, DONE], Joined.MET),
        (2, [DONE, OPEN, OPEN], Joined.OPEN),
        (2, [DONE, BAD, OPEN], Joined.OPEN),
        (2, [DONE, BAD, DONE], Joined.MET),
        (2, [DONE, BAD, BAD], Joined.MISSED),
        (5, [DONE, DONE], Joined.MET),
    ],
)
def test_a_join_is_met_open_or_missed(rule: str | int, outcomes: list[str], how: Joined) -> None:
    assert joined(rule, outcomes) is how


@pytest.mark.parametrize(
    ("tasks", "how"),
    [
        ([(True, DONE), (False, DONE)], Staged.DONE),
        ([(True, DONE), (False, BAD)], Staged.DONE),
        ([(True, DONE), (False, OPEN)], Staged.OPEN),
        ([(True, OPEN), (False, DONE)], Staged.OPEN),
        ([(True, BAD), (False, OPEN)], Staged.FAILED),
        ([(True, GONE)], Staged.FAILED),
        ([(True, LATE), (True, OPEN)], Staged.WAITS),
        ([(True, LATE), (True, BAD)], Staged.FAILED),
        ([(False, LATE), (True, DONE)], Staged.DONE),
        ([], Staged.DONE),
    ],
)
def test_a_stage_ends_when_the_required_ones_completed(tasks: list[tuple[bool, str]], how: Staged) -> None:
    assert staged(tasks) is how


@pytest.mark.parametrize(
    ("threshold", "electors", "yes", "no", "verdict"),
    [
        ("all_approve", 3, 3, 0, True),
        ("all_approve", 3, 2, 0, None),
        ("all_approve", 3, 2, 1, False),
        ("all_approve", 3, 1, 1, None),  # people may think again until everybody has voted
        ("any_reject", 3, 3, 0, True),
        ("any_reject", 3, 2, 0, None),
        ("any_reject", 3, 2, 1, False),
        ("any_reject", 3, 0, 1, False),
        ("majority_approve", 3, 2, 0, True),
        ("majority_approve", 3, 1, 1, None),
        ("majority_approve", 3, 1, 2, False),
        ("majority_approve", 4, 2, 1, None),
        ("majority_approve", 4, 2, 2, False),
        ("majority_approve", 4, 3, 0, True),
        ("n_approve:1", 3, 1, 2, True),
        ("n_approve:2", 3, 1, 1, None),
        ("n_approve:2", 3, 1, 2, False),
        ("all_approve", 0, 0, 0, False),
    ],
)
def test_a_quorum_is_decided_by_its_threshold(
    threshold: str, electors: int, yes: int, no: int, verdict: bool | None
) -> None:
    assert votes.tally(threshold, electors, yes, no) is verdict


@pytest.mark.parametrize("threshold", ["", "some", "n_approve:", "n_approve:0", "n_approve:-1", "all_approve:2"])
def test_what_is_no_threshold_is_refused(threshold: str) -> None:
    with pytest.raises(InvalidInput):
        votes.needed(threshold, 3)

"""What follows from limits and feeders, as tables: no database (spec: 05 section 5)."""

from __future__ import annotations

import pytest

from boards.flows import validate
from boards.flows.limits import GAP, Limits, Place, Seat, is_full, limits_of, put_before, seat_of_new

FLOW = """
key: desk
name: Desk
style: board
steps:
  - {key: backlog, name: Backlog}
  - {key: write, name: Write, wip_limit: 2, pull_from: backlog}
  - {key: check, name: Check, pull_from: write}
  - {key: over, name: Over, terminal: true, wip_limit: 4}
  - {key: done, name: Done, wip_limit: 3, pull_from: write}
"""


@pytest.mark.parametrize(
    ("key", "limit", "feeder", "fed_by"),
    [
        ("backlog", 0, "", ["write"]),
        ("write", 2, "backlog", []),
        ("check", 0, "", []),  # without a limit nobody waits for it, so it pulls nobody
        ("over", 0, "", []),  # a run that enters it is over
        ("done", 0, "", []),
        ("gone", 0, "", []),  # of an older version
    ],
)
def test_each_step_has_its_limit_and_its_feeder(key: str, limit: int, feeder: str, fed_by: list[str]) -> None:
    limits = limits_of(validate(FLOW).steps)
    assert (limits.of(key), limits.feeder(key), limits.fed_by(key)) == (limit, feeder, fed_by)


def test_slots_are_locked_by_position_and_steps_of_older_versions_last() -> None:
    limits = Limits({"b": Place(0), "a": Place(1), "c": Place(7)})
    assert limits.in_order(["z", "c", "y", "a", "b", "a", ""]) == ["b", "a", "c", "y", "z"]


@pytest.mark.parametrize(
    ("limit", "taken", "full"), [(0, 0, False), (0, 99, False), (1, 0, False), (1, 1, True), (2, 3, True)]
)
def test_a_step_is_full_once_all_places_are_taken(limit: int, taken: int, full: bool) -> None:
    assert is_full(limit, taken) is full


@pytest.mark.parametrize(
    ("full", "feeder", "feeder_full", "seat"),
    [
        (False, "", False, Seat.STEP),
        (False, "backlog", True, Seat.STEP),
        (True, "", False, Seat.QUEUE),
        (True, "backlog", False, Seat.FEEDER),
        (True, "backlog", True, Seat.NONE),
    ],
)
def test_a_new_run_takes_a_place_else_waits_in_the_feeder_else_queues(
    full: bool, feeder: str, feeder_full: bool, seat: Seat
) -> None:
    assert seat_of_new(is_full=full, feeder=feeder, feeder_is_full=feeder_full) is seat


@pytest.mark.parametrize(
    ("order", "moved", "before", "changed"),
    [
        ([], 1, 0, {1: 0}),
        ([(1, 0)], 1, 0, {1: 0}),
        ([(1, 0), (2, 0)], 2, 1, {2: -GAP}),  # to the head
        ([(1, 0), (2, 0)], 1, 0, {1: GAP}),  # to the end
        ([(1, 0), (2, 0)], 1, 99, {1: GAP}),  # before one that is no longer there
        ([(1, 0), (2, 500), (3, 0)], 3, 2, {3: 250}),  # there is a number between
        ([(1, 0), (2, 0), (3, 0), (4, 0)], 4, 3, {4: -GAP, 2: -2 * GAP, 1: -3 * GAP}),  # there is none: room is made
        ([(1, -9 * GAP), (2, 0), (3, 0), (4, 0)], 4, 3, {4: -GAP, 2: -2 * GAP}),  # as little as is needed
    ],
)
def test_a_card_is_put_before_another(
    order: list[tuple[int, int]], moved: int, before: int, changed: dict[int, int]
) -> None:
    assert put_before(order, moved, before) == changed


@pytest.mark.parametrize("moved", range(1, 7))
@pytest.mark.parametrize("before", range(7))
def test_the_order_is_the_one_that_was_asked_for(moved: int, before: int) -> None:
    if moved == before:
        return
    order = [(key, position) for key, position in zip(range(1, 7), [0, 0, 5, 6, 6, 90], strict=True)]
    positions = dict(order) | put_before(order, moved, before)
    # Cards with equal positions stand as they stood before.
    shown = sorted(positions, key=lambda key: (positions[key], key))
    wanted = [key for key in range(1, 7) if key != moved]
    wanted.insert(wanted.index(before) if before else len(wanted), moved)
    assert shown == wanted

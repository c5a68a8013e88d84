"""How many runs the steps of a flow may hold, and what follows from it; pure (spec: 05 section 5).

Nothing here reads or writes a row: `boards.flows.wip` counts, asks, and writes the answer. The newest version's limits
hold for the runs of all versions; a step that only older versions have is without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from boards.flows.definition import StepDefinition, is_terminal

GAP: Final = 1024  # between the positions of two cards that were put somewhere by hand


@dataclass(frozen=True, slots=True)
class Place:
    """One step: where it stands, how many runs it holds (0: any number), and the step that it pulls from, or ''."""

    position: int
    limit: int = 0
    feeder: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Step key -> its place, of the newest version."""

    places: Mapping[str, Place] = field(default_factory=dict)

    def of(self, key: str) -> int:
        """How many runs the step may hold; 0: any number."""
        place = self.places.get(key)
        return place.limit if place else 0

    def feeder(self, key: str) -> str:
        """The step that this one pulls from, or ''. A step without a limit makes nobody wait, so it pulls nobody."""
        place = self.places.get(key)
        return place.feeder if place and place.limit else ""

    def fed_by(self, key: str) -> list[str]:
        """The steps that pull from this one, in their order."""
        return self.in_order(each for each in self.places if self.feeder(each) == key)

    def in_order(self, keys: Iterable[str]) -> list[str]:
        """Steps in the one order in which their slots are locked: by position, unknown ones last."""
        last = len(self.places) + max((place.position for place in self.places.values()), default=0)
        return sorted(
            {key for key in keys if key},
            key=lambda key: (self.places[key].position if key in self.places else last, key),
        )


def limits_of(steps: Sequence[StepDefinition]) -> Limits:
    """The limits that the steps of a flow set. A run that enters a terminal step is over and takes no place there."""
    ends = {step.key for step in steps if is_terminal(steps, step)}
    return Limits(
        {
            step.key: Place(
                step.position,
                0 if step.key in ends else step.wip_limit,
                "" if step.pull_from in ends else step.pull_from,
            )
            for step in steps
        }
    )


class Seat(StrEnum):
    """Where a new run goes."""

    STEP = "step"
    FEEDER = "feeder"  # it waits in the step that the full one pulls from
    QUEUE = "queue"  # it waits for a place in the step itself
    NONE = "none"


def is_full(limit: int, taken: int) -> bool:
    """Whether no place is left; a limit that was lowered leaves more runs than places."""
    return 0 < limit <= taken


def seat_of_new(*, is_full: bool, feeder: str, feeder_is_full: bool) -> Seat:
    """Where a new run goes: into its step, else into the feeder, else nowhere; without a feeder it queues."""
    if not is_full:
        return Seat.STEP
    if not feeder:
        return Seat.QUEUE
    return Seat.NONE if feeder_is_full else Seat.FEEDER


def put_before(order: Sequence[tuple[int, int]], moved: int, before: int) -> dict[int, int]:
    """Run key -> new position, so that `moved` stands right before `before` (0, or one that is not there: last).

    `order`: key and position of every run of the column, as it is shown. Few rows change: where there is no number
    between two neighbours, those further up make room.
    """
    others = [row for row in order if row[0] != moved]
    at = next((n for n, (key, _) in enumerate(others) if key == before), len(others))
    if at == len(others):
        return {moved: others[-1][1] + GAP if others else 0}
    after = others[at][1]
    room = after - others[at - 1][1] if at else 2 * GAP
    if room > 1:
        return {moved: after - room // 2}
    found = {moved: after - GAP}
    for key, position in reversed(others[:at]):
        bound = min(found.values()) - GAP
        if position <= bound:
            break
        found[key] = bound
    return found

"""What a definition is judged against beyond its own text: the board's roster and the other flows of the space.

The shape is plain data; `surroundings_of` alone reads rows. Without any, those rules are left out or judged by the
document alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from boards.models import Board, FlowStep, FlowVersion, RosterEntry, Space


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`people`: names on the roster that are persons. `roster`: all its names; None: not known, so none is missed.

    `calls`: the space's flows by key, each with the keys of the flows that it calls; None: not known.
    """

    people: frozenset[str] = frozenset()
    roster: frozenset[str] | None = None
    calls: Mapping[str, frozenset[str]] | None = None


NOTHING_KNOWN: Final = Surroundings()


def surroundings_of(space: Space, board: Board | None) -> Surroundings:
    """What a flow of `space` on `board` is judged against; on a board that is still to be made nobody is missed."""
    entries = list(RosterEntry.objects.filter(board=board).values_list("name", "kind")) if board else []
    return Surroundings(
        people=frozenset(name for name, kind in entries if kind == "person"),
        roster=frozenset(name for name, _ in entries) if board else None,
        calls=_calls(space),
    )


def _calls(space: Space) -> dict[str, frozenset[str]]:
    newest = (
        FlowVersion.objects.filter(flow__space=space).order_by("flow", "-number").distinct("flow").values_list("pk")
    )
    called: dict[str, set[str]] = {key: set() for key in space.flows.values_list("key", flat=True)}
    steps = FlowStep.objects.filter(version__in=newest, kind="call").values_list("version__flow__key", "settings__flow")
    for key, flow in steps:
        called[key].add(str(flow))
    return {key: frozenset(keys) for key, keys in called.items()}

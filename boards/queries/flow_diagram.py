"""Where the steps of a flow and the ways between them stand in its drawing: plain geometry, no row is read (spec: 08).

Steps stand below one another. The way to the next is a straight line; one that skips steps runs on the right, one that
goes back on the left, each in a lane of its own as far as there is room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from boards.flows.decisions import target_of
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.queries.run_steps import ICONS, PERSON_KINDS

WIDTH: Final = 400
_LEFT: Final = 84
_BOX: Final = 232
_HEAD: Final = 44
_INNER: Final = 22
_GAP: Final = 30
_TOP: Final = 12
_LANE: Final = 15
_LANES: Final = 4
_CHARACTERS: Final = 26


@dataclass(frozen=True, slots=True)
class Inner:
    """One line inside a step's box: a branch, a task, a failure step."""

    words: str
    y: int
    is_person: bool = False
    is_failure: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A step's box. `kind` and `who` as words below its name; `marks`: start, end, signal, due and limit in short."""

    key: str
    name: str
    words: str
    icon: str
    y: int
    height: int
    inner: tuple[Inner, ...] = ()
    is_person: bool = False
    is_start: bool = False
    is_end: bool = False

    @property
    def middle(self) -> int:
        return self.y + _HEAD // 2


@dataclass(frozen=True, slots=True)
class Edge:
    """A way. `path`: SVG path data; `kind`: next, jump, back, start, failure or pull; `words`: it as a sentence."""

    kind: str
    path: str
    words: str
    label: str = ""
    x: int = 0
    y: int = 0
    is_conditional: bool = False


@dataclass(frozen=True, slots=True)
class Diagram:
    height: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int = WIDTH
    left: int = _LEFT
    box: int = _BOX


@dataclass(frozen=True, slots=True)
class _Way:
    source: str
    target: str
    kind: str
    when: str = ""


def diagram(flow: FlowDefinition) -> Diagram:
    """The drawing of a flow, also of one that is not valid yet: ways that lead nowhere are left out."""
    nodes: dict[str, Node] = {}
    y = _TOP
    for step in flow.steps:
        nodes[step.key] = _node(flow, step, y)
        y += nodes[step.key].height + _GAP
    order = {key: place for place, key in enumerate(nodes)}
    edges = tuple(_edges(list(_ways(flow)), nodes, order))
    return Diagram(max(y - _GAP + _TOP, _HEAD), tuple(nodes.values()), edges)


def _node(flow: FlowDefinition, step: StepDefinition, y: int) -> Node:
    inner = tuple(
        Inner(_short(words), y + _HEAD + place * _INNER + 6, person, failure)
        for place, (words, person, failure) in enumerate(_inner(step))
    )
    who = step.assignee or (flow.agent if step.files_task else "")
    return Node(
        key=step.key,
        name=_short(step.name or step.key),
        words=_short(f"{step.kind}, {who}" if who else step.kind, _CHARACTERS + 4),
        icon="flag" if flow.is_terminal(step) else ICONS.get(step.kind, "board"),
        y=y,
        height=_HEAD + len(inner) * _INNER + (6 if inner else 0),
        inner=inner,
        is_person=step.kind in PERSON_KINDS,
        is_start=step.key == flow.start_step.key,
        is_end=flow.is_terminal(step),
    )


def _inner(step: StepDefinition) -> Iterator[tuple[str, bool, bool]]:
    for branch in step.branches:
        yield f"∥ {branch.name}", branch.kind in PERSON_KINDS, False
    for task in step.tasks:
        after = f" ← {', '.join(task.deps)}" if task.deps else ""
        yield f"{'•' if task.required else '◦'} {task.title or task.key}{after}", False, False
    for failed in step.on_failure.steps if step.on_failure else ():
        yield f"✕ {failed.name}", failed.kind in PERSON_KINDS, True


def _ways(flow: FlowDefinition) -> Iterator[_Way]:
    for step in flow.steps:
        for action in step.on_turn_start:
            if target := target_of(flow, step, action):
                yield _Way(step.key, target, "start")
        if flow.is_terminal(step):
            continue
        for way in step.choices:
            if way.step != step.key and flow.step(way.step):
                yield _Way(step.key, way.step, "move", way.when)
        if all(way.when for way in step.choices):
            for action in flow.completion(step):
                if target := target_of(flow, step, action):
                    yield _Way(step.key, target, "move", action.when)
        failed = step.on_failure
        if failed and failed.then == "goto" and failed.goto != step.key and flow.step(failed.goto):
            yield _Way(step.key, failed.goto, "failure")
        if step.pull_from and step.pull_from != step.key and flow.step(step.pull_from):
            yield _Way(step.pull_from, step.key, "pull")


def _edges(ways: list[_Way], nodes: dict[str, Node], order: dict[str, int]) -> Iterator[Edge]:
    lanes = {"left": 0, "right": 0}
    for way in ways:
        source, target = nodes[way.source], nodes[way.target]
        by = order[way.target] - order[way.source]
        words = _sentence(way, source, target)
        if by == 1 and way.kind == "move":
            x, y = _LEFT + _BOX // 2, source.y + source.height
            path = f"M{x} {y}V{target.y - 2}"
            yield Edge("next", path, words, _short(way.when, 30), x + 8, y + _GAP // 2 + 4, bool(way.when))
            continue
        side = "left" if by < 0 else "right"
        lane = lanes[side] % _LANES
        lanes[side] += 1
        kind = way.kind if way.kind != "move" else ("back" if by < 0 else "jump")
        yield _round(kind, side, lane, source, target, words, way.when)


def _round(kind: str, side: str, lane: int, source: Node, target: Node, words: str, when: str) -> Edge:
    """A way along the side: out of the box, along its lane, into the other box; the corners are round."""
    offset = 18 + lane * _LANE
    start, end = source.middle + 5, target.middle - 5
    edge, turn = (_LEFT, _LEFT - offset) if side == "left" else (_LEFT + _BOX, _LEFT + _BOX + offset)
    sign = 1 if end > start else -1
    corner = 8 if side == "right" else -8
    path = (
        f"M{edge} {start}H{turn - corner}Q{turn} {start} {turn} {start + 8 * sign}"
        f"V{end - 8 * sign}Q{turn} {end} {turn - corner} {end}H{edge + (2 if side == 'right' else -2)}"
    )
    return Edge(kind, path, words, "", turn, (start + end) // 2, bool(when))


def _sentence(way: _Way, source: Node, target: Node) -> str:
    if way.kind == "failure":
        return f"{source.name} → {target.name}, when it failed"
    if way.kind == "start":
        return f"{source.name} → {target.name}, when a person writes to the card"
    if way.kind == "pull":
        return f"{target.name} pulls from {source.name}"
    return f"{source.name} → {target.name}" + (f", when {way.when}" if way.when else "")


def _short(text: str, most: int = _CHARACTERS) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"

"""Judges a flow's document as a whole, before anything is written (spec: 05 section 1, "Validation").

Every fault is named with its line and its path. Pure: nothing here reads a row; what is known of the board and of the
other flows of the space comes in as `Surroundings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from boards.errors import InvalidFlow
from boards.flows import fields, reading, templating
from boards.flows.cycles import automatic_cycles, pull_cycles
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.flows.document import Located, Problems, read
from boards.flows.judging import StepJudge, known_names
from boards.flows.judging_calls import judge_calls
from boards.flows.reading import child, listed, refuse_twice
from boards.flows.surroundings import NOTHING_KNOWN, Surroundings
from boards.flows.templating import PROMPT_NAMES

TYPE: Final = "orchestra_flow"
VERSION: Final = 1
MAX_STEPS: Final = 100
ROSTER_KINDS: Final = ("python", "command", "pull", "person")

_ENVELOPE: Final = fields.Fields(
    {"version": fields.plain, "type": fields.plain, "flows": fields.plain, "roster": fields.plain}, ("flows",)
)
_FLOW: Final = fields.Fields(
    {
        "key": fields.key,
        "name": fields.name,
        "description": fields.text,
        "prompt": fields.text,
        "agent": fields.roster_name,
        "style": fields.one_of("pipeline", "board"),
        "inputs": fields.input_schema,
        "steps": fields.plain,
    },
    ("key", "name", "steps"),
)
_ROSTER: Final = fields.Fields(
    {"name": fields.roster_name, "kind": fields.one_of(*ROSTER_KINDS), "config": fields.plain}, ("name", "kind")
)


@dataclass(frozen=True, slots=True)
class Document:
    """What a text holds: its flows, and the roster entries that their board needs ({"name", "kind", "config"})."""

    flows: tuple[FlowDefinition, ...]
    roster: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """What an editor shows of a text. `flow`: its one flow as far as it can be read, also where there are problems."""

    flow: FlowDefinition | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        return self.flow is not None and not self.problems


def judged(text: str, around: Surroundings = NOTHING_KNOWN) -> Judged:
    """The one flow of `text` with everything that is wrong with it; raises nothing."""
    try:
        flow = validate(text, around)
    except InvalidFlow as refused:
        return Judged(_sketched(text), tuple(refused.problems))
    return Judged(flow, (), flow.warnings)


def _sketched(text: str) -> FlowDefinition | None:
    """What can be drawn of a text with problems: its steps that have a key, each key once."""
    unread = Problems()
    root = read(text, unread)
    node = root if root is None or child(root, "steps") else next(iter(listed(root, "flows", unread)), None)
    if node is None:
        return None
    told = _FLOW.read(node, unread, "A flow")
    steps = {step.key: step for step in (reading.step(*each, unread) for each in _numbered(node, unread)) if step.key}
    if not steps:
        return None
    told["steps"] = tuple(sorted(steps.values(), key=lambda step: step.position))
    return FlowDefinition(**{"key": "", "name": ""} | told)


def _numbered(node: Located, unread: Problems) -> list[tuple[Located, int]]:
    return [(each, place) for place, each in enumerate(listed(node, "steps", unread)[:MAX_STEPS])]


def validate(text: str, around: Surroundings = NOTHING_KNOWN) -> FlowDefinition:
    """The one flow of `text`, a bare flow or an envelope with one. Raises `InvalidFlow` with every problem found."""
    flows = validate_document(text, around).flows
    if len(flows) != 1:
        raise InvalidFlow([f"line 1, flows: This document holds {len(flows)} flows; here it takes one."])
    return flows[0]


def validate_document(text: str, around: Surroundings = NOTHING_KNOWN) -> Document:
    """Every flow of `text`, YAML or JSON. Raises `InvalidFlow` with every problem found, each with line and path.

    `around`: what is known of the space and the board that the flows are for.
    """
    problems = Problems()
    root = read(text, problems)
    if root is None:
        raise InvalidFlow(problems.sentences())
    document = _document(root, problems, around)
    if problems.found:
        raise InvalidFlow(problems.sentences())
    return document


def _document(root: Located, problems: Problems, around: Surroundings) -> Document:
    if isinstance(root.value, dict) and "steps" in root.value and "flows" not in root.value:
        return Document(tuple(_flows([root], problems, around)))
    told = _ENVELOPE.read(root, problems, "The document")
    if told.get("version", VERSION) != VERSION:
        problems.add(root.value["version"], "This version of the format is not known here; version 1 is.")
    if told.get("type", TYPE) != TYPE:
        problems.add(root.value["type"], f'The type must be "{TYPE}".')
    flows = listed(root, "flows", problems) if told else []
    if told and not flows:
        problems.add(root, "The document holds no flow.", "flows")
    nodes = listed(root, "roster", problems)
    roster = [_ROSTER.read(each, problems, "A roster entry") for each in nodes]
    refuse_twice("name", ((each.get("name"), node) for each, node in zip(roster, nodes, strict=True)), problems)
    return Document(tuple(_flows(flows, problems, _with_roster(around, roster))), tuple(roster))


def _with_roster(around: Surroundings, roster: Sequence[dict[str, Any]]) -> Surroundings:
    """What is known once the document's own roster entries are on the board."""
    names = {str(entry.get("name", "")) for entry in roster}
    persons = {str(entry.get("name", "")) for entry in roster if entry.get("kind") == "person"}
    known = None if around.roster is None else around.roster | names
    return replace(around, people=around.people | persons, roster=known)


def _flows(nodes: Sequence[Located], problems: Problems, around: Surroundings) -> list[FlowDefinition]:
    built = [flow for flow in (_FlowReader(node, problems, around).flow() for node in nodes) if flow]
    judge_calls(built, nodes, around, problems)
    refuse_twice("key", ((node.value["key"].plain(), node) for node in nodes if child(node, "key")), problems)
    return built


@dataclass(slots=True)
class _FlowReader:
    """Reads and judges one flow; a flow with problems may come out incomplete, and is then never used."""

    at: Located
    problems: Problems
    around: Surroundings
    warnings: list[str] = field(default_factory=list)

    def flow(self) -> FlowDefinition | None:
        before = len(self.problems.found)
        told = _FLOW.read(self.at, self.problems, "A flow")
        nodes = listed(self.at, "steps", self.problems)
        if told and "steps" in told and not nodes:
            self.problems.add(self.at, "A flow needs at least one step.", "steps")
        if len(nodes) > MAX_STEPS:
            self.problems.add(self.at, f"A flow has at most {MAX_STEPS} steps.", "steps")
            return None
        steps = [reading.step(node, place, self.problems) for place, node in enumerate(nodes)]
        self._refuse_twices(steps, nodes)
        if len(self.problems.found) > before or not steps:
            return None
        told["steps"] = tuple(sorted(steps, key=lambda step: step.position))
        flow = FlowDefinition(**told)
        by_key = {step.key: node for step, node in zip(steps, nodes, strict=True)}
        for step in flow.steps:
            StepJudge(flow, step, by_key[step.key], self.problems, self.warnings, self.around.roster).judge()
        for fault in templating.template_faults(flow.prompt, known_names(flow, PROMPT_NAMES)):
            self.problems.add(self.at.value["prompt"], fault)
        self._judge_cycles(flow, by_key)
        return replace(flow, warnings=tuple(self.warnings))

    def _refuse_twices(self, steps: list[StepDefinition], nodes: list[Located]) -> None:
        pairs = list(zip(steps, nodes, strict=True))
        refuse_twice("key", ((step.key, node) for step, node in pairs if step.key), self.problems)
        refuse_twice("position", ((step.position, node) for step, node in pairs), self.problems)
        starts = [node for step, node in pairs if step.is_start_step]
        for node in starts[1:]:
            self.problems.add(node, "Only one step may be the start step.", "is_start_step")

    def _judge_cycles(self, flow: FlowDefinition, by_key: dict[str, Located]) -> None:
        for cycle in automatic_cycles(flow, self.around.people):
            last = by_key[cycle.keys[-1]]
            if cycle.person:
                words = f"A run can go round: {cycle.words}. A person stands in it."
                self.warnings.append(f"line {last.line}, {last.path}: {words}")
            else:
                words = f"A run would go round by itself: {cycle.words}. Put a person (an approval) in it."
                self.problems.add(last, words)
        for cycle in pull_cycles(flow):
            last = by_key[cycle.keys[-1]]
            words = f"These steps would pull from one another in a circle: {cycle.words}."
            self.problems.at(last.value["pull_from"].line, last.child_path("pull_from"), words)

"""Judges a flow's document as a whole, before anything is written (spec: 05 section 1, "Validation").

Every fault is named with its line and its path. Pure: nothing here reads a row, so a name on the roster is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from boards.errors import InvalidFlow
from boards.flows import fields, templating
from boards.flows.cycles import automatic_cycles
from boards.flows.definition import (
    MOMENTS,
    STEP_DEFAULTS,
    TRANSITIONS,
    FlowDefinition,
    StepDefinition,
    actions_from,
)
from boards.flows.document import Located, Problems, read
from boards.flows.judging import StepJudge, known_names
from boards.flows.templating import PROMPT_NAMES

TYPE: Final = "orchestra_flow"
MAX_STEPS: Final = 100
KINDS: Final = ("agent", "task", "approval", "column")
LATER_KINDS: Final = ("input", "wait", "choice", "parallel", "stage", "loop", "call", "notify")
ROSTER_KINDS: Final = ("python", "command", "pull", "person")

# action type -> the moments at which it may stand
_ACTIONS: Final = {
    "auto_start": ("on_enter",),
    "set_data": ("on_enter", "on_turn_complete", "on_exit"),
    **dict.fromkeys(TRANSITIONS, ("on_turn_start", "on_turn_complete")),
}
_LATER_ACTIONS: Final = ("notify", "reset_context", "create_task")

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
_STEP: Final = fields.Fields(
    {
        "key": fields.key,
        "name": fields.name,
        "position": fields.whole(0),
        "kind": fields.plain,
        "color": fields.color,
        "assignee": fields.roster_name,
        "prompt": fields.text,
        "draft": fields.text,
        "checker": fields.roster_name,
        "max_attempts": fields.whole(1),
        "timeout_ms": fields.whole(1),
        "events": fields.plain,
        "auto_advance_requires_signal": fields.flag,
        "cancel_triggers_turn_complete": fields.flag,
        "is_start_step": fields.flag,
        "allow_manual_move": fields.flag,
        "show_in_command_panel": fields.flag,
        "terminal": fields.flag,
    },
    ("key", "name"),
    later={
        "wip_limit": (0, None),
        "pull_from": (None, ""),
        "on_failure": (None, []),
        "auto_archive_after_hours": (0, None),
    },
)
_EVENTS: Final = fields.Fields(dict.fromkeys(MOMENTS, fields.plain))
_ACTION: Final = fields.Fields(
    {"type": fields.text, "step": fields.text, "when": fields.text, "data": fields.plain},
    ("type",),
    later={"requires_approval": (False, None), "quorum": (None,)},
)
_ROSTER: Final = fields.Fields(
    {"name": fields.roster_name, "kind": fields.one_of(*ROSTER_KINDS), "config": fields.plain}, ("name", "kind")
)


@dataclass(frozen=True, slots=True)
class Document:
    """What a text holds: its flows, and the roster entries that their board needs ({"name", "kind", "config"})."""

    flows: tuple[FlowDefinition, ...]
    roster: tuple[dict[str, Any], ...] = ()


def validate(text: str) -> FlowDefinition:
    """The one flow of `text`, a bare flow or an envelope with one. Raises `InvalidFlow` with every problem found."""
    flows = validate_document(text).flows
    if len(flows) != 1:
        raise InvalidFlow([f"line 1, flows: This document holds {len(flows)} flows; here it takes one."])
    return flows[0]


def validate_document(text: str) -> Document:
    """Every flow of `text`, YAML or JSON. Raises `InvalidFlow` with every problem found, each with line and path."""
    problems = Problems()
    root = read(text, problems)
    if root is None:
        raise InvalidFlow(problems.sentences())
    document = _document(root, problems)
    if problems.found:
        raise InvalidFlow(problems.sentences())
    return document


def _document(root: Located, problems: Problems) -> Document:
    if isinstance(root.value, dict) and "steps" in root.value and "flows" not in root.value:
        return Document(tuple(_flows([root], problems)))
    told = _ENVELOPE.read(root, problems, "The document")
    if told.get("version", 1) != 1:
        problems.add(root.value["version"], "This version of the format is not known here; version 1 is.")
    if told.get("type", TYPE) != TYPE:
        problems.add(root.value["type"], f'The type must be "{TYPE}".')
    flows = _listed(root, "flows", problems) if told else []
    if told and not flows:
        problems.add(root, "The document holds no flow.", "flows")
    roster = [_ROSTER.read(each, problems, "A roster entry") for each in _listed(root, "roster", problems)]
    return Document(tuple(_flows(flows, problems)), tuple(roster))


def _listed(at: Located, name: str, problems: Problems) -> list[Located]:
    inner = at.value.get(name) if isinstance(at.value, dict) else None
    if inner is None or inner.value is None:
        return []
    if not isinstance(inner.value, list):
        problems.add(inner, f'"{name}" must be a list.')
        return []
    return list(inner.value)


def _flows(nodes: Sequence[Located], problems: Problems) -> list[FlowDefinition]:
    built = [flow for flow in (_FlowReader(node, problems).flow() for node in nodes) if flow]
    _refuse_twice("key", ((node.value["key"].plain(), node) for node in nodes if _has(node, "key")), problems)
    return built


def _has(node: Located, name: str) -> bool:
    return isinstance(node.value, dict) and name in node.value


def _refuse_twice(name: str, given: Iterable[tuple[Any, Located]], problems: Problems) -> None:
    seen: dict[Any, int] = {}
    for value, node in given:
        if isinstance(value, dict | list):
            continue
        line = node.value[name].line if _has(node, name) else node.line
        if value in seen:
            problems.at(line, node.child_path(name), f'The {name} "{value}" stands on line {seen[value]} already.')
        seen.setdefault(value, line)


@dataclass(slots=True)
class _FlowReader:
    """Reads and judges one flow; a flow with problems may come out incomplete, and is then never used."""

    at: Located
    problems: Problems
    warnings: list[str] = field(default_factory=list)

    def flow(self) -> FlowDefinition | None:
        before = len(self.problems.found)
        told = _FLOW.read(self.at, self.problems, "A flow")
        nodes = _listed(self.at, "steps", self.problems)
        if told and "steps" in told and not nodes:
            self.problems.add(self.at, "A flow needs at least one step.", "steps")
        if len(nodes) > MAX_STEPS:
            self.problems.add(self.at, f"A flow has at most {MAX_STEPS} steps.", "steps")
            return None
        steps = [_step(node, place, self.problems) for place, node in enumerate(nodes)]
        self._refuse_twices(steps, nodes)
        if len(self.problems.found) > before or not steps:
            return None
        told["steps"] = tuple(sorted(steps, key=lambda step: step.position))
        flow = FlowDefinition(**told)
        by_key = {step.key: node for step, node in zip(steps, nodes, strict=True)}
        for step in flow.steps:
            StepJudge(flow, step, by_key[step.key], self.problems, self.warnings).judge()
        for fault in templating.template_faults(flow.prompt, known_names(flow, PROMPT_NAMES)):
            self.problems.add(self.at.value["prompt"], fault)
        self._judge_cycles(flow, by_key)
        return replace(flow, warnings=tuple(self.warnings))

    def _refuse_twices(self, steps: list[StepDefinition], nodes: list[Located]) -> None:
        pairs = list(zip(steps, nodes, strict=True))
        _refuse_twice("key", ((step.key, node) for step, node in pairs if step.key), self.problems)
        _refuse_twice("position", ((step.position, node) for step, node in pairs), self.problems)
        starts = [node for step, node in pairs if step.is_start_step]
        for node in starts[1:]:
            self.problems.add(node, "Only one step may be the start step.", "is_start_step")

    def _judge_cycles(self, flow: FlowDefinition, by_key: dict[str, Located]) -> None:
        for cycle in automatic_cycles(flow):
            last = by_key[cycle.keys[-1]]
            if cycle.person:
                words = f"A run can go round: {cycle.words}. A person stands in it."
                self.warnings.append(f"line {last.line}, {last.path}: {words}")
            else:
                words = f"A run would go round by itself: {cycle.words}. Put a person (an approval) in it."
                self.problems.add(last, words)


def _step(node: Located, place: int, problems: Problems) -> StepDefinition:
    told = _STEP.read(node, problems, "A step")
    events = node.value.get("events") if isinstance(node.value, dict) else None
    moments = _moments(events, problems) if events is not None and events.value is not None else {}
    position = told.get("position")
    return StepDefinition(
        key=told.get("key", ""),
        name=told.get("name", ""),
        position=place if position is None else position,
        kind=_kind(node, told.get("kind", "column"), problems),
        **{name: told[name] for name in STEP_DEFAULTS if name in told},
        **moments,
    )


def _kind(node: Located, kind: Any, problems: Problems) -> str:
    available = ", ".join(KINDS)
    if kind in KINDS:
        return str(kind)
    if kind in LATER_KINDS:
        problems.add(node.value["kind"], f'The kind "{kind}" is not available yet. Available: {available}.')
    else:
        problems.add(node.value["kind"], f'Unknown kind "{kind}". Available: {available}.')
    return "column"


def _moments(at: Located, problems: Problems) -> dict[str, Any]:
    told = _EVENTS.read(at, problems, "The events")
    moments: dict[str, Any] = {}
    for moment in told:
        actions = [_action(each, moment, problems) for each in _listed(at, moment, problems)]
        moments[moment] = actions_from(action for action in actions if action is not None)
    return moments


def _action(at: Located, moment: str, problems: Problems) -> dict[str, Any] | None:
    if isinstance(at.value, str):
        at = Located({"type": Located(at.value, at.line, at.path)}, at.line, at.path)
    told = _ACTION.read(at, problems, "An action")
    kind = told.get("type", "")
    if not kind:
        return None
    if kind in _LATER_ACTIONS:
        problems.add(at, f'The action "{kind}" is not available yet; leave it out.')
    elif kind not in _ACTIONS:
        problems.add(at, f'Unknown action "{kind}". Available: {", ".join(_ACTIONS)}.')
    elif moment not in _ACTIONS[kind]:
        problems.add(at, f'"{kind}" may stand under {" and ".join(_ACTIONS[kind])} only.')
    _judge_parts(at, kind, moment, told, problems)
    return {name: value for name, value in told.items() if value not in ("", None)}


def _judge_parts(at: Located, kind: str, moment: str, told: dict[str, Any], problems: Problems) -> None:
    if kind == "move_to_step" and not told.get("step"):
        problems.add(at, '"move_to_step" needs the key of a step.', "step")
    if kind != "move_to_step" and "step" in told:
        problems.add(at.value["step"], f'"{kind}" takes no step.')
    if "when" in told and (moment != "on_turn_complete" or kind not in TRANSITIONS):
        problems.add(at.value["when"], 'A "when" belongs to a transition under on_turn_complete.')
    if kind == "set_data" and not (isinstance(told.get("data"), dict) and told["data"]):
        problems.add(at, '"set_data" needs a mapping of names and values.', "data")
    if kind != "set_data" and "data" in told:
        problems.add(at.value["data"], f'"{kind}" takes no data.')

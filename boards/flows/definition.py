"""The shapes of a flow's definition, and the way between them, the rows of a version and the YAML (spec: 05 section 1).

Data and reading only: `boards.flows.validation` is the one place that judges a definition, and it alone makes these
from what a person wrote.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, Final

from boards.flows import ordering
from boards.models import FlowStep, FlowVersion

TERMINAL_NAMES: Final = frozenset({"done", "complete", "completed", "approved"})
TRANSITIONS: Final = ("move_to_next", "move_to_previous", "move_to_step")
MOMENTS: Final = ("on_enter", "on_turn_start", "on_turn_complete", "on_exit")
WORKING_KINDS: Final = frozenset({"agent", "task"})
ASKING_KINDS: Final = frozenset({"approval", "input"})
# Several works at once, or another run: what is still at work when the step is left has to be ended.
MANY_KINDS: Final = frozenset({"parallel", "stage", "loop", "call"})
KINDS: Final = (
    "agent",
    "task",
    "approval",
    "input",
    "wait",
    "choice",
    "parallel",
    "stage",
    "loop",
    "call",
    "notify",
    "column",
)

# Every field of a step but key, name, position and kind, with its default; what equals its default is not stored.
STEP_DEFAULTS: Final[Mapping[str, Any]] = {
    "color": "",
    "assignee": "",
    "prompt": "",
    "draft": "",
    "checker": "",
    "max_attempts": None,
    "timeout_ms": None,
    "auto_advance_requires_signal": False,
    "cancel_triggers_turn_complete": False,
    "is_start_step": False,
    "allow_manual_move": True,
    "show_in_command_panel": True,
    "terminal": False,
    "wip_limit": 0,
    "pull_from": "",
    "auto_archive_after_hours": 0,
    # Of one kind only.
    "schema": None,  # input
    "duration_ms": None,  # wait
    "until": "",  # wait
    "event": "",  # wait
    "join": "all",  # parallel
    "judge": "",  # loop
    "replanner": "",  # loop
    "finalize": "",  # loop
    "max_iterations": None,  # loop
    "flow": "",  # call
    "inputs": None,  # call
    "to": "",  # notify
}


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a step's events. `options`: whatever else its type takes (`set_data`: {"data": {...}})."""

    type: str
    step: str = ""
    when: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_transition(self) -> bool:
        return self.type in TRANSITIONS

    def wire(self) -> str | dict[str, Any]:
        """As it stands in the YAML: its bare name when there is nothing else to say."""
        told: dict[str, Any] = {"type": self.type, **self.options}
        if self.step:
            told["step"] = self.step
        if self.when:
            told["when"] = self.when
        return told if len(told) > 1 else self.type


@dataclass(frozen=True, slots=True)
class Way:
    """One way out of a `choice`: the step it leads to, taken where `when` holds; without `when` it is taken always."""

    step: str
    when: str = ""

    def wire(self) -> dict[str, Any]:
        return {"when": self.when, "step": self.step} if self.when else {"step": self.step}


@dataclass(frozen=True, slots=True)
class StageTask:
    """One task of a `stage`, or seed of a `loop`. `deps`: keys of others in the same step; `goal` is a template."""

    key: str
    goal: str
    title: str = ""
    assignee: str = ""
    required: bool = True
    deps: tuple[str, ...] = ()
    checker: str = ""
    max_attempts: int | None = None
    timeout_ms: int | None = None

    def wire(self) -> dict[str, Any]:
        told: dict[str, Any] = {"key": self.key, "goal": self.goal}
        for name, default in STAGE_TASK_DEFAULTS.items():
            if getattr(self, name) != default:
                told[name] = list(self.deps) if name == "deps" else getattr(self, name)
        return told


STAGE_TASK_DEFAULTS: Final[Mapping[str, Any]] = {
    "title": "",
    "assignee": "",
    "required": True,
    "deps": (),
    "checker": "",
    "max_attempts": None,
    "timeout_ms": None,
}


@dataclass(frozen=True, slots=True)
class OnFailure:
    """What runs when the step fails, and what becomes of the run then: `fail`, `continue`, or `goto` a step's key.

    The steps belong to the visit and have no column; none of them has an `on_failure` of its own.
    """

    steps: tuple[StepDefinition, ...] = ()
    then: str = "fail"
    goto: str = ""

    def wire(self) -> dict[str, Any]:
        then = f"goto {self.goto}" if self.then == "goto" else self.then
        steps = [step.inner_wire() for step in self.steps]
        return {"steps": steps, "then": then} if steps else {"then": then}


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """One step. Texts are '' when absent; `checker` '' leaves it to the board; durations are in milliseconds.

    `join` of a `parallel`: "all", "any" or how many branches have to complete. `branches` and the steps of
    `on_failure` are steps too, of kinds that file a task or ask. `tasks` are those of a `stage`, or a `loop`'s seeds.
    """

    key: str
    name: str
    position: int
    kind: str = "column"
    color: str = ""
    assignee: str = ""
    prompt: str = ""
    draft: str = ""
    checker: str = ""
    max_attempts: int | None = None
    timeout_ms: int | None = None
    on_enter: tuple[Action, ...] = ()
    on_turn_start: tuple[Action, ...] = ()
    on_turn_complete: tuple[Action, ...] = ()
    on_exit: tuple[Action, ...] = ()
    auto_advance_requires_signal: bool = False
    cancel_triggers_turn_complete: bool = False
    is_start_step: bool = False
    allow_manual_move: bool = True
    show_in_command_panel: bool = True
    terminal: bool = False
    wip_limit: int = 0
    pull_from: str = ""
    auto_archive_after_hours: int = 0
    schema: Mapping[str, Any] | None = None
    duration_ms: int | None = None
    until: str = ""
    event: str = ""
    join: str | int = "all"
    judge: str = ""
    replanner: str = ""
    finalize: str = ""
    max_iterations: int | None = None
    flow: str = ""
    inputs: Mapping[str, Any] | None = None
    to: str = ""
    choices: tuple[Way, ...] = ()
    branches: tuple[StepDefinition, ...] = ()
    tasks: tuple[StageTask, ...] = ()
    on_failure: OnFailure | None = None

    @property
    def files_task(self) -> bool:
        """Whether entering it files a task: always for working kinds, for a column when its events say so."""
        return self.kind in WORKING_KINDS or (
            self.kind == "column" and any(action.type == "auto_start" for action in self.on_enter)
        )

    @property
    def transitions(self) -> tuple[Action, ...]:
        return tuple(action for action in self.on_turn_complete if action.is_transition)

    def settings(self) -> dict[str, Any]:
        """What `FlowStep.settings` holds: every field that differs from its default, as in the YAML."""
        told = {name: getattr(self, name) for name, default in STEP_DEFAULTS.items() if getattr(self, name) != default}
        if self.choices:
            told["choices"] = [way.wire() for way in self.choices]
        if self.branches:
            told["branches"] = [branch.inner_wire() for branch in self.branches]
        if self.tasks:
            told["tasks"] = [task.wire() for task in self.tasks]
        if self.on_failure is not None:
            told["on_failure"] = self.on_failure.wire()
        moments = {moment: getattr(self, moment) for moment in MOMENTS}
        events = {moment: [action.wire() for action in actions] for moment, actions in moments.items() if actions}
        return told | ({"events": events} if events else {})

    def wire(self) -> dict[str, Any]:
        """As it is exported; the cancel flag is always written (section 3.6)."""
        flag = "cancel_triggers_turn_complete"
        return {"key": self.key, "name": self.name, "kind": self.kind, flag: getattr(self, flag)} | self.settings()

    def inner_wire(self) -> dict[str, Any]:
        """As it stands inside another step, where it is no column and has no events of its own."""
        named = {"key": self.key} if self.name == self.key else {"key": self.key, "name": self.name}
        return named | {"kind": self.kind} | self.settings()


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """A whole flow. `inputs`: the JSON schema of what starts a run; `warnings`: sentences that do not forbid saving."""

    key: str
    name: str
    steps: tuple[StepDefinition, ...]
    description: str = ""
    prompt: str = ""
    agent: str = ""
    style: str = "pipeline"
    inputs: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def step(self, key: str) -> StepDefinition | None:
        return next((step for step in self.steps if step.key == key), None)

    @property
    def start_step(self) -> StepDefinition:
        return next((step for step in self.steps if step.is_start_step), self.steps[0])

    def neighbour(self, step: StepDefinition, by: int) -> StepDefinition | None:
        """The step `by` places further on by position; None past either end."""
        at = self.steps.index(step) + by
        return self.steps[at] if 0 <= at < len(self.steps) else None

    def is_terminal(self, step: StepDefinition) -> bool:
        """Whether a run ends on entering `step` (spec: 05 section 1)."""
        return is_terminal(self.steps, step)

    def completion(self, step: StepDefinition) -> tuple[Action, ...]:
        """What runs when a turn in `step` is complete; in a pipeline a step that says nothing moves to the next."""
        if not step.on_turn_complete and self.style == "pipeline":
            return (Action("move_to_next"),)
        return step.on_turn_complete

    def settings(self) -> dict[str, Any]:
        """What `FlowVersion.settings` holds."""
        return {"prompt": self.prompt, "agent": self.agent, "style": self.style, "inputs": dict(self.inputs)}

    def wire(self) -> dict[str, Any]:
        """As it is exported: one entry of `flows` in the envelope."""
        head = {"key": self.key, "name": self.name, "description": self.description} | self.settings()
        return {name: value for name, value in head.items() if value} | {"steps": [step.wire() for step in self.steps]}


def is_terminal(steps: Sequence[StepDefinition], step: StepDefinition) -> bool:
    return step.terminal or (step is steps[-1] and step.name.strip().lower() in TERMINAL_NAMES)


def load(version: FlowVersion) -> FlowDefinition:
    """The definition that a stored version holds."""
    flow, told = version.flow, ordering.ordered(version.settings, version.settings.get("order") or {})
    return FlowDefinition(
        key=flow.key,
        name=flow.name,
        description=flow.description,
        prompt=told.get("prompt", ""),
        agent=told.get("agent", ""),
        style=told.get("style", "pipeline"),
        inputs=told.get("inputs", {}),
        steps=steps_of(version),
    )


# What a version is known by, also where databases change under one process: a restored one gives keys out again.
_Known = tuple[str, int, datetime]
_MOST_KNOWN: Final = 500
_known: OrderedDict[_Known, tuple[StepDefinition, ...]] = OrderedDict()
_known_lock: Final = Lock()


def steps_of(version: FlowVersion) -> tuple[StepDefinition, ...]:
    """Its steps, read once by each process: they are never changed, and every move of every run asks for them."""
    key = (str(version._state.db), version.pk, version.created_at)
    with _known_lock:
        if found := _known.get(key):
            _known.move_to_end(key)
            return found
    steps = tuple(step_from_row(row) for row in version.steps.order_by("position"))
    if steps:  # else it is being written just now
        with _known_lock:
            _known[key] = steps
            while len(_known) > _MOST_KNOWN:
                _known.popitem(last=False)
    return steps


def step_from_row(row: FlowStep) -> StepDefinition:
    settings = ordering.ordered(row.settings, row.settings.get("order") or {})
    return step_from(row.key, row.name, row.position, row.kind, settings)


def stored(step: StepDefinition) -> dict[str, Any]:
    """What the row of a step holds as its settings: its fields, and the order that the database would lose."""
    settings = step.settings()
    kept = ordering.orders(settings)
    return settings | ({"order": kept} if kept else {})


def step_from(key: str, name: str, position: int, kind: str, settings: Mapping[str, Any]) -> StepDefinition:
    """A step from plain values that were judged before."""
    told = {field: settings.get(field, default) for field, default in STEP_DEFAULTS.items()}
    events: Mapping[str, Any] = settings.get("events") or {}
    moments: dict[str, Any] = {moment: actions_from(events.get(moment, ())) for moment in MOMENTS}
    nested: dict[str, Any] = {
        "choices": tuple(Way(each["step"], str(each.get("when", ""))) for each in settings.get("choices") or ()),
        "branches": _inner_steps(settings.get("branches") or ()),
        "tasks": tuple(_stage_task(each) for each in settings.get("tasks") or ()),
        "on_failure": _on_failure(settings.get("on_failure")),
    }
    return StepDefinition(key=key, name=name, position=position, kind=kind, **told, **moments, **nested)


def _inner_steps(told: Iterable[Mapping[str, Any]]) -> tuple[StepDefinition, ...]:
    return tuple(
        step_from(each["key"], each.get("name", each["key"]), place, each.get("kind", "task"), each)
        for place, each in enumerate(told)
    )


def _stage_task(told: Mapping[str, Any]) -> StageTask:
    known = {name: told.get(name, default) for name, default in STAGE_TASK_DEFAULTS.items()}
    return StageTask(key=told["key"], goal=told["goal"], **known | {"deps": tuple(known["deps"])})


def _on_failure(told: Mapping[str, Any] | None) -> OnFailure | None:
    if told is None:
        return None
    then, _, goto = str(told.get("then", "fail")).partition(" ")
    return OnFailure(_inner_steps(told.get("steps") or ()), then, goto.strip())


def actions_from(told: Iterable[str | Mapping[str, Any]]) -> tuple[Action, ...]:
    return tuple(_action_from(each) for each in told)


def _action_from(told: str | Mapping[str, Any]) -> Action:
    if isinstance(told, str):
        return Action(told)
    rest = {name: value for name, value in told.items() if name not in {"type", "step", "when"}}
    return Action(told["type"], told.get("step", ""), str(told.get("when", "")), rest)

"""The form that stands beside a flow's text: its fields, and what a changed field makes of the text. No row is read.

The text is the flow. A form is made from one text (`base`); what was changed in it since is put into the text as it is
now, step by step, so that neither side undoes the other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from boards.flows.decisions import target_of
from boards.flows.definition import KINDS, STEP_DEFAULTS, TRANSITIONS, FlowDefinition, StepDefinition
from boards.flows.document import Problems, read
from boards.flows.exporting import flow_order, written
from boards.flows.kinds import FIELDS

# How a field is edited: one line, several lines, YAML, a number, a tick, one of a list, a name that may be typed.
_CONTROLS: Final[Mapping[str, str]] = {
    "name": "line",
    "description": "lines",
    "style": "choice",
    "agent": "roster",
    "prompt": "lines",
    "inputs": "yaml",
    "kind": "choice",
    "color": "line",
    "assignee": "roster",
    "draft": "lines",
    "checker": "roster",
    "max_attempts": "number",
    "timeout_ms": "number",
    "schema": "yaml",
    "duration_ms": "number",
    "until": "line",
    "event": "line",
    "choices": "yaml",
    "branches": "yaml",
    "join": "line",
    "tasks": "yaml",
    "judge": "line",
    "replanner": "line",
    "finalize": "line",
    "max_iterations": "number",
    "flow": "flow",
    "to": "line",
    "auto_advance_requires_signal": "tick",
    "cancel_triggers_turn_complete": "tick",
    "is_start_step": "tick",
    "terminal": "tick",
    "allow_manual_move": "tick",
    "show_in_command_panel": "tick",
    "wip_limit": "number",
    "pull_from": "step",
    "auto_archive_after_hours": "number",
    "events": "yaml",
    "on_failure": "yaml",
}
FLOW_FIELDS: Final = ("name", "description", "style", "agent", "prompt", "inputs")
# Beside those that go with its kind; `more` stand folded.
_FIRST: Final = ("name", "kind")
_LAST: Final = ("events", "on_failure", "cancel_triggers_turn_complete")
_MORE: Final = (
    "color",
    "is_start_step",
    "terminal",
    "allow_manual_move",
    "show_in_command_panel",
    "wip_limit",
    "pull_from",
    "auto_archive_after_hours",
)


@dataclass(frozen=True, slots=True)
class FormField:
    """One field. `value`: as it stands in the control; `options`: of a choice, (value, words)."""

    name: str
    control: str
    value: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_on(self) -> bool:
        return self.value == "on"

    @property
    def rows(self) -> int:
        return min(max(self.value.count("\n") + 1, 2), 24)


@dataclass(frozen=True, slots=True)
class StepForm:
    """The step that is edited. `starts`: names of the steps in which its completion would start work by itself."""

    key: str
    name: str
    fields: tuple[FormField, ...]
    more: tuple[FormField, ...]
    is_first: bool
    is_last: bool
    starts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    flow: tuple[FormField, ...]
    steps: tuple[tuple[str, str, str], ...]  # key, name, kind
    step: StepForm | None


def plain_flow(text: str) -> dict[str, Any] | None:
    """The one flow of a text as plain values, whether it is valid or not; None where it cannot be read as one."""
    root = read(text, Problems())
    told = root.plain() if root else None
    if isinstance(told, dict) and "flows" in told:
        flows = told["flows"]
        told = flows[0] if isinstance(flows, list) and len(flows) == 1 else None
    if not isinstance(told, dict) or not isinstance(told.get("steps") or [], list):
        return None
    steps = told.get("steps") or []
    if not all(isinstance(step, dict) for step in steps):
        return None
    # The order says what positions say, and is what the form changes.
    if steps and all(isinstance(step.get("position"), int) for step in steps):
        steps = [{name: step[name] for name in step if name != "position"} for step in sorted(steps, key=_position)]
    return told | {"steps": steps}


def _position(step: Mapping[str, Any]) -> int:
    return int(step["position"])


def form_of(flow: FlowDefinition | None, told: Mapping[str, Any] | None, at: str) -> Form | None:
    """The form of a text (`told`: its plain values) with the step `at` open, else the first."""
    if told is None:
        return None
    steps = [step for step in told["steps"] if step.get("key")]
    opened = next((step for step in steps if str(step["key"]) == at), steps[0] if steps else None)
    fields = tuple(_field(name, told, told) for name in FLOW_FIELDS)
    listed = tuple((str(s["key"]), str(s.get("name") or s["key"]), str(s.get("kind") or "column")) for s in steps)
    return Form(fields, listed, _step_form(flow, told, opened, steps) if opened else None)


def _step_form(
    flow: FlowDefinition | None, told: Mapping[str, Any], step: dict[str, Any], steps: list[dict[str, Any]]
) -> StepForm:
    names = [*_names_of(step), *_LAST]
    read_step = flow.step(str(step["key"])) if flow else None
    if flow is None or read_step is None or not completes(flow, read_step):
        names.remove("cancel_triggers_turn_complete")
    return StepForm(
        key=str(step["key"]),
        name=str(step.get("name") or step["key"]),
        fields=tuple(_field(name, step, told) for name in names),
        more=tuple(_field(name, step, told) for name in _MORE),
        is_first=step is steps[0],
        is_last=step is steps[-1],
        starts=tuple(dict.fromkeys(starts_agents(flow, read_step))) if flow and read_step else (),
    )


def completes(flow: FlowDefinition, step: StepDefinition) -> bool:
    """Whether the step has a transition on completion, so that completing it by a cancel means anything."""
    return any(target_of(flow, step, action) for action in flow.completion(step))


def _names_of(step: Mapping[str, Any]) -> list[str]:
    kind = str(step.get("kind") or "column")
    return [*_FIRST, *FIELDS.get(kind, ())]


def _field(name: str, told: Mapping[str, Any], flow: Mapping[str, Any]) -> FormField:
    control = _CONTROLS[name]
    options: tuple[tuple[str, str], ...] = ()
    if name == "kind":
        options = tuple((kind, kind) for kind in KINDS)
    elif name == "style":
        options = (("pipeline", "pipeline"), ("board", "board"))
    elif name == "pull_from":
        keys = [(str(s["key"]), str(s.get("name") or s["key"])) for s in flow["steps"] if s.get("key")]
        options = (("", ""), *(each for each in keys if each[0] != told.get("key")))
    value = shown(name, told)
    if options and value not in {each for each, _ in options}:
        options = ((value, value), *options)  # what is written is shown, also where it is wrong
    return FormField(name, control, value, options)


def shown(name: str, told: Mapping[str, Any]) -> str:
    """A field's value as its control holds it."""
    value = told.get(name)
    control = _CONTROLS[name]
    if control == "tick":
        return "on" if (STEP_DEFAULTS[name] if value is None else value) is True else ""
    if value is None:
        return {"kind": "column", "style": "pipeline"}.get(name, "")
    if control == "yaml" or isinstance(value, dict | list):
        return written(value).rstrip("\n") if value else ""
    try:
        return str(value)
    except ValueError:  # a number of thousands of digits; the problem stands beside its line
        return ""


def applied(text: str, base: str, at: str, posted: Callable[[str, str], str | None]) -> str:
    """`text` with what was changed in the form that was made of `base`; the same text where nothing was.

    `posted(of, name)`: what the control of a field holds now (`of`: flow or step), None where there is none.
    """
    before, now = plain_flow(base), plain_flow(text)
    if before is None or now is None:
        return text
    changed = copy.deepcopy(now)
    _change(changed, before, FLOW_FIELDS, lambda name: posted("flow", name))
    old, new = _step(before, at), _step(changed, at)
    if old is not None and new is not None:
        names = [*_names_of(old), *_LAST, *_MORE]
        _change(new, old, names, lambda name: posted("step", name))
        if new.get("is_start_step") is True and old.get("is_start_step") is not True:
            for other in changed["steps"]:
                if other is not new:
                    other.pop("is_start_step", None)
    return text if changed == now else in_text(changed)


def _change(told: dict[str, Any], before: Mapping[str, Any], names: Any, posted: Callable[[str], str | None]) -> None:
    for name in names:
        given = posted(name)
        if given is None:
            continue
        given = given.replace("\r\n", "\n")
        if given.rstrip("\n") != shown(name, before).replace("\r\n", "\n").rstrip("\n"):
            value = _value(name, given)
            if value is None or value == "" or value == _default(name):
                told.pop(name, None)
            else:
                told[name] = value


def _default(name: str) -> Any:
    return {"kind": "column", "style": "pipeline"}.get(name, STEP_DEFAULTS.get(name))


def _value(name: str, given: str) -> Any:
    control = _CONTROLS[name]
    if control == "tick":
        return given == "on"
    if control == "number" or name == "join":
        return int(given) if given.strip().isascii() and given.strip().isdecimal() else given.strip()
    if control == "yaml":
        root = read(given, Problems()) if given.strip() else None
        return given if root is None and given.strip() else root.plain() if root else None
    return given if control == "lines" else given.strip()


def in_text(told: Mapping[str, Any]) -> str:
    """A flow's plain values as the text of the editor: fields in their usual order."""
    return written(flow_order(told))


def _step(told: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    return next((step for step in told["steps"] if str(step.get("key")) == key), None)


def with_step(text: str, after: str) -> tuple[str, str]:
    """The text with a new step after the one of that key, and the new step's key."""
    told = plain_flow(text)
    if told is None:
        return text, after
    taken = {str(step.get("key")) for step in told["steps"]}
    key = next(f"step-{n}" for n in range(len(taken) + 1, 2 * len(taken) + 3) if f"step-{n}" not in taken)
    keys = [str(step.get("key")) for step in told["steps"]]
    place = keys.index(after) + 1 if after in keys else len(keys)
    told["steps"].insert(place, {"key": key, "name": "New step"})
    return in_text(told), key


def without_step(text: str, key: str) -> str:
    told = plain_flow(text)
    if told is None or _step(told, key) is None:
        return text
    told["steps"] = [step for step in told["steps"] if str(step.get("key")) != key]
    return in_text(told)


def moved_step(text: str, key: str, by: int) -> str:
    """The text with a step one place earlier (`by` -1) or later (1)."""
    told = plain_flow(text)
    if told is None:
        return text
    steps = told["steps"]
    place = next((at for at, step in enumerate(steps) if str(step.get("key")) == key), -1)
    if place < 0 or not 0 <= place + by < len(steps):
        return text
    steps[place], steps[place + by] = steps[place + by], steps[place]
    return in_text(told)


def starts_agents(flow: FlowDefinition, step: StepDefinition) -> Iterator[str]:
    """The names of the steps after this one that would start work by themselves."""
    for action in flow.completion(step):
        target = flow.step(target_of(flow, step, action) or "") if action.type in TRANSITIONS else None
        if target is not None and target.files_task:
            yield target.name

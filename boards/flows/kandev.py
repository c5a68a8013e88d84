"""Reads kandev's portable workflows (`type: kandev_workflow`, version 1) as flows of this format (spec: 05 section 6).

Pure. A workflow becomes a `board` flow whose steps are columns; what has no counterpart here is named, never dropped
in silence. What comes out is judged like any other document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from boards.flows.definition import MOMENTS, TRANSITIONS
from boards.flows.document import Located, Problems

TYPE: Final = "kandev_workflow"
VERSION: Final = 1
# What a task's own words are called there, and where they stand in a run here.
_INPUT: Final = "task"
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_OPENERS: Final = re.compile(r"\{[{%#]")
_TASK_WORDS: Final = frozenset({"task_prompt", "task.prompt", "task.description", "task_description", "task.title"})
_COLOR: Final = re.compile(r"(?:bg-)?([a-z]+)(?:-\d+)?")

_FLOW_FIELDS: Final = frozenset({"name", "description", "prompt", "steps"})
_STEP_FIELDS: Final = frozenset(
    {
        "name",
        "position",
        "color",
        "prompt",
        "events",
        "is_start_step",
        "show_in_command_panel",
        "allow_manual_move",
        "auto_archive_after_hours",
        "auto_advance_requires_signal",
        "cancel_triggers_turn_complete",
        "wip_limit",
        "pull_from_step_position",
    }
)
_COPIED: Final = ("auto_archive_after_hours", "wip_limit")
# A flag that is left out is false there; older files do not know the command panel at all.
_FLAGS: Final = {
    "is_start_step": False,
    "allow_manual_move": False,
    "show_in_command_panel": True,
    "auto_advance_requires_signal": False,
    "cancel_triggers_turn_complete": False,
}
_MOVES: Final = {name: name for name in TRANSITIONS}
_ACTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "on_enter": {"auto_start_agent": "auto_start", "reset_agent_context": "reset_context"},
    "on_turn_start": _MOVES,
    "on_turn_complete": _MOVES,
    "on_exit": {},
}


@dataclass(frozen=True, slots=True)
class Converted:
    """`flows`: as they stand in our envelope. `notes`: one sentence for each thing that has no counterpart."""

    flows: list[dict[str, Any]]
    notes: list[str]


def is_kandev(root: Located) -> bool:
    """Whether a document says that it is one of kandev's."""
    kind = root.value.get("type") if isinstance(root.value, dict) else None
    return kind is not None and kind.value == TYPE


def converted(root: Located, problems: Problems) -> Converted:
    """The workflows of the document as flows; what makes it no such document goes into `problems`."""
    told = root.plain()
    if told.get("version", VERSION) != VERSION:
        problems.add(root.value["version"], "This version of kandev's format is not known here; version 1 is.")
    workflows = told.get("workflows")
    if not isinstance(workflows, list) or not workflows:
        problems.add(root, "The document holds no workflow.", "workflows")
        return Converted([], [])
    flows, notes, keys = [], [], set[str]()
    for name in sorted(set(told) - {"version", "type", "workflows"}):
        notes.append(f'The document\'s "{name}" has no counterpart and was left out.')
    for at, workflow in zip(root.value["workflows"].value, workflows, strict=True):
        if not isinstance(workflow, dict) or not isinstance(workflow.get("steps"), list):
            problems.add(at, "A workflow needs a name and a list of steps.")
            continue
        _refuse_twice(at.value["steps"], problems)
        reader = _Workflow(workflow, keys)
        flows.append(reader.flow())
        notes.extend(reader.notes)
    return Converted(flows, notes)


def _refuse_twice(steps: Located, problems: Problems) -> None:
    seen: set[int] = set()
    for step in steps.value:
        position = step.value.get("position") if isinstance(step.value, dict) else None
        if position is not None and isinstance(position.value, int):
            if position.value in seen:
                problems.add(position, f'The position "{position.value}" is given twice.')
            seen.add(position.value)


@dataclass(slots=True)
class _Workflow:
    told: dict[str, Any]
    flow_keys: set[str]
    notes: list[str] = field(default_factory=list)
    # Position there -> key here.
    keys: dict[int, str] = field(default_factory=dict)

    def flow(self) -> dict[str, Any]:
        name = str(self.told.get("name") or "")
        steps = [step if isinstance(step, dict) else {} for step in self.told["steps"]]
        steps.sort(key=_position)
        taken: set[str] = set()
        own = [_key(str(step.get("name") or ""), taken) for step in steps]
        self.keys = {_position(step): key for step, key in zip(steps, own, strict=True)}
        self._note_rest(f'the workflow "{name}"', self.told, _FLOW_FIELDS)
        flow = {
            "key": _key(name, self.flow_keys),
            "name": name,
            "description": str(self.told.get("description") or ""),
            "style": "board",
            "prompt": self._prompt(str(self.told.get("prompt") or ""), name),
            "inputs": {
                "properties": {_INPUT: {"type": "string", "title": "Task", "description": "What is to be done."}}
            },
            "steps": [self._step(step, key) for step, key in zip(steps, own, strict=True)],
        }
        return {name: value for name, value in flow.items() if value}

    def _step(self, step: dict[str, Any], key: str) -> dict[str, Any]:
        name = str(step.get("name") or "")
        where = f'the step "{name}"'
        self._note_rest(where, step, _STEP_FIELDS)
        told: dict[str, Any] = {"key": key, "name": name, "kind": "column"}
        if color := _COLOR.fullmatch(str(step.get("color") or "")):
            told["color"] = color[1]
        elif step.get("color"):
            self.notes.append(f'The color "{step["color"]}" of {where} is none here and was left out.')
        told |= {flag: step.get(flag, default) for flag, default in _FLAGS.items()}
        told |= {name: step[name] for name in _COPIED if step.get(name) is not None}
        if step.get("pull_from_step_position") is not None:
            told["pull_from"] = self._key_at(step["pull_from_step_position"])
        events = self._events(step.get("events") or {}, where)
        prompt = self._prompt(str(step.get("prompt") or ""), where)
        if "auto_start" in events.get("on_enter", ()):
            prompt = prompt or f"{{{{ input.{_INPUT} }}}}"
        elif told["auto_advance_requires_signal"]:
            self.notes.append(f'"auto_advance_requires_signal" of {where} was left out: the step starts no agent.')
            told["auto_advance_requires_signal"] = False
        return told | {name: value for name, value in {"prompt": prompt, "events": events}.items() if value}

    def _events(self, events: Any, where: str) -> dict[str, list[Any]]:
        if not isinstance(events, dict):
            return {}
        for name in sorted(set(events) - set(MOMENTS)):
            if events[name]:
                self.notes.append(f'The event "{name}" of {where} has no counterpart and was left out.')
        read = {moment: self._actions(events.get(moment) or [], moment, where) for moment in MOMENTS}
        return {moment: actions for moment, actions in read.items() if actions}

    def _actions(self, actions: Sequence[Any], moment: str, where: str) -> list[Any]:
        known = _ACTIONS[moment]
        read: list[Any] = []
        for action in actions:
            kind = str(action.get("type") if isinstance(action, dict) else action)
            if kind not in known:
                self.notes.append(f'The action "{kind}" ({moment} of {where}) has no counterpart and was left out.')
            elif kind == "move_to_step":
                config = (action.get("config") or {}) if isinstance(action, dict) else {}
                read.append({"type": kind, "step": self._key_at(config.get("step_position"))})
            else:
                read.append(known[kind])
        return read

    def _key_at(self, position: Any) -> str:
        """The key of the step at a position; where there is none, a key that the judging then names as missing."""
        known = self.keys.get(position) if isinstance(position, int) else None
        return known or f"position-{position}"

    def _prompt(self, text: str, where: str) -> str:
        """The prompt with kandev's placeholders as ours; others stay as they are read, and are named."""

        def put(match: re.Match[str]) -> str:
            if match[1] in _TASK_WORDS:
                return f"\0{match[1]}\0"
            self.notes.append(
                f'The placeholder "{match[0]}" in the prompt of {where} has no counterpart; it stays as text.'
            )
            return match[0]

        marked = _PLACEHOLDER.sub(put, text.replace("\0", ""))
        plain = _OPENERS.sub(lambda opener: f"{{{{ '{opener[0]}' }}}}", marked)
        return re.sub("\0[^\0]*\0", f"{{{{ input.{_INPUT} }}}}", plain)

    def _note_rest(self, where: str, told: Mapping[str, Any], known: frozenset[str]) -> None:
        for name in sorted(set(told) - known):
            if told[name] not in (None, "", False, [], {}):
                self.notes.append(f'"{name}" of {where} has no counterpart and was left out.')


def _position(step: Mapping[str, Any]) -> int:
    position = step.get("position")
    return position if isinstance(position, int) else 0


def _key(name: str, taken: set[str]) -> str:
    """A key made of a name, that nothing else in `taken` has; it is added there."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:70] or "step"
    key = next(each for n in range(1, len(taken) + 2) if (each := words if n == 1 else f"{words}-{n}") not in taken)
    taken.add(key)
    return key

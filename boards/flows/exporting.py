"""Writes flows as text: the envelope of version 1, as YAML or JSON (spec: 05 section 6).

Pure. Fields stand in one fixed order, so that the same flow is always the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from boards.flows.definition import FlowDefinition
from boards.flows.document import JSON_FLOAT
from boards.flows.validation import TYPE, VERSION

WIDTH: Final = 120
FORMATS: Final = ("yaml", "json")
# What a reader of YAML refuses or folds inside a text, though JSON may hold it as it is.
_UNSAFE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

# The order of a flow's and a step's fields; what is not named here comes after, as it stands.
_FLOW_ORDER: Final = ("key", "name", "description", "style", "agent", "prompt", "inputs", "steps")
_STEP_ORDER: Final = (
    "key",
    "name",
    "kind",
    "color",
    "is_start_step",
    "terminal",
    "assignee",
    "prompt",
    "draft",
    "schema",
    "duration_ms",
    "until",
    "choices",
    "join",
    "branches",
    "tasks",
    "judge",
    "replanner",
    "finalize",
    "max_iterations",
    "flow",
    "inputs",
    "to",
    "checker",
    "max_attempts",
    "timeout_ms",
    "auto_advance_requires_signal",
    "cancel_triggers_turn_complete",
    "allow_manual_move",
    "show_in_command_panel",
    "wip_limit",
    "pull_from",
    "auto_archive_after_hours",
    "events",
    "on_failure",
)


def exported(flows: Iterable[FlowDefinition], form: str = "yaml") -> str:
    """The whole document of these flows as text; `form`: yaml or json."""
    return written(envelope(flows), form)


def envelope(flows: Iterable[FlowDefinition]) -> dict[str, Any]:
    return {"version": VERSION, "type": TYPE, "flows": [flow_fields(flow) for flow in flows]}


def flow_fields(flow: FlowDefinition) -> dict[str, Any]:
    """A flow's fields in the order in which they are written."""
    told = flow_order(flow.wire())
    for step in told["steps"]:
        if "branches" in step:
            step["branches"] = [_in_order(branch, _STEP_ORDER) for branch in step["branches"]]
        if steps := step.get("on_failure", {}).get("steps"):
            step["on_failure"]["steps"] = [_in_order(inner, _STEP_ORDER) for inner in steps]
    return told


def flow_order(told: Mapping[str, Any]) -> dict[str, Any]:
    """A flow's plain values, judged or not, with its fields and those of its steps in their order."""
    ordered = _in_order(told, _FLOW_ORDER)
    return ordered | {"steps": [_in_order(step, _STEP_ORDER) for step in ordered["steps"]]}


def _in_order(told: Mapping[str, Any], order: tuple[str, ...]) -> dict[str, Any]:
    return {name: told[name] for name in (*order, *told) if name in told}


def written(document: Mapping[str, Any], form: str = "yaml") -> str:
    """Plain values as text that reads back as the same values."""
    if form == "json":
        return _UNSAFE.sub(_escaped, json.dumps(document, ensure_ascii=False, indent=2)) + "\n"
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH))


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


class _Dumper(yaml.SafeDumper):
    """Lists stand in from their key, no alias is made, and several lines of text stay lines."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if _stays_a_block(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _stays_a_block(value: str) -> bool:
    """Whether a block of lines can hold the text as it is, with no hint of its indentation and no escapes."""
    lines = value.split("\n")
    return (
        len(lines) > 1
        and bool(lines[0])
        and not lines[0][0].isspace()
        and all(line.isprintable() and line == line.rstrip() for line in lines)
    )


_Dumper.add_representer(str, _text)
_Dumper.add_implicit_resolver(*JSON_FLOAT)

"""Reads one step of a flow's document: its fields, its events, and the steps and tasks inside it.

Pure. What a step says of itself alone is judged here; what it says of others is for `boards.flows.judging`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from boards.flows import fields
from boards.flows.actions import moments
from boards.flows.definition import (
    KINDS,
    STAGE_TASK_DEFAULTS,
    STEP_DEFAULTS,
    OnFailure,
    StageTask,
    StepDefinition,
    Way,
)
from boards.flows.document import Located, Problems
from boards.flows.kinds import INNER_KINDS

MAX_INNER: Final = 100
_THEN: Final = re.compile(r"fail|continue|goto (?P<key>\S+)")

_OF_INNER: Final[dict[str, fields.Reader]] = {
    "key": fields.key,
    "name": fields.name,
    "kind": fields.plain,
    "assignee": fields.roster_name,
    "prompt": fields.text,
    "draft": fields.text,
    "schema": fields.input_schema,
    "checker": fields.roster_name,
    "max_attempts": fields.whole(1),
    "timeout_ms": fields.whole(1),
}
_INNER: Final = fields.Fields(_OF_INNER, ("key",))
_STEP: Final = fields.Fields(
    _OF_INNER
    | {
        "position": fields.whole(0),
        "color": fields.color,
        "events": fields.plain,
        "on_failure": fields.plain,
        "auto_advance_requires_signal": fields.flag,
        "cancel_triggers_turn_complete": fields.flag,
        "is_start_step": fields.flag,
        "allow_manual_move": fields.flag,
        "show_in_command_panel": fields.flag,
        "terminal": fields.flag,
        "wip_limit": fields.whole(0),
        "pull_from": fields.text,
        "auto_archive_after_hours": fields.whole(0),
        "duration_ms": fields.whole(1),
        "until": fields.text,
        "event": fields.text,
        "choices": fields.plain,
        "branches": fields.plain,
        "join": fields.join,
        "tasks": fields.plain,
        "judge": fields.roster_name,
        "replanner": fields.roster_name,
        "finalize": fields.roster_name,
        "max_iterations": fields.whole(1),
        "flow": fields.text,
        "inputs": fields.mapping,
        "to": fields.roster_name,
    },
    ("key", "name"),
)
_WAY: Final = fields.Fields({"step": fields.text, "when": fields.text}, ("step",))
_TASK: Final = fields.Fields(
    {
        "key": fields.key,
        "goal": fields.text,
        "title": fields.text,
        "assignee": fields.roster_name,
        "required": fields.flag,
        "deps": fields.keys,
        "checker": fields.roster_name,
        "max_attempts": fields.whole(1),
        "timeout_ms": fields.whole(1),
    },
    ("key", "goal"),
)
_ON_FAILURE: Final = fields.Fields({"steps": fields.plain, "then": fields.text})


def step(node: Located, place: int, problems: Problems) -> StepDefinition:
    """A step of the flow, as far as it can be read; what is wrong is added to `problems`."""
    told = _STEP.read(node, problems, "A step")
    position = told.get("position")
    kind = _kind(node, told.get("kind") or "column", KINDS, "column", problems)
    ways = (_WAY.read(each, problems, "A way of a choice") for each in listed(node, "choices", problems))
    return StepDefinition(
        key=told.get("key", ""),
        name=told.get("name", ""),
        position=place if position is None else position,
        kind=kind,
        **_plain_fields(told),
        **moments(child(node, "events"), problems),
        choices=tuple(Way(way.get("step", ""), way.get("when", "")) for way in ways),
        branches=_inner_steps(node, "branches", "A branch", problems),
        tasks=tuple(_stage_task(each, problems) for each in _limited(node, "tasks", problems)),
        on_failure=_on_failure(child(node, "on_failure"), problems),
    )


def child(node: Located, name: str) -> Located | None:
    """A field of a mapping, where it is given and not empty."""
    inner = node.value.get(name) if isinstance(node.value, dict) else None
    return None if inner is None or inner.value is None else inner


def listed(node: Located, name: str, problems: Problems) -> list[Located]:
    """The items of a field that is a list; none where it is left out."""
    inner = child(node, name)
    if inner is None:
        return []
    if not isinstance(inner.value, list):
        problems.add(inner, f'"{name}" must be a list.')
        return []
    return list(inner.value)


def refuse_twice(name: str, given: Iterable[tuple[Any, Located]], problems: Problems) -> None:
    """Add a problem for each value that another node of the list had before."""
    seen: dict[Any, int] = {}
    for value, node in given:
        if isinstance(value, dict | list):
            continue
        inner = node.value.get(name) if isinstance(node.value, dict) else None
        line = inner.line if inner is not None else node.line
        if value in seen:
            problems.at(line, node.child_path(name), f'The {name} "{value}" stands on line {seen[value]} already.')
        seen.setdefault(value, line)


def _plain_fields(told: dict[str, Any]) -> dict[str, Any]:
    """The fields that are one value each; one that is given empty takes its default."""
    given = {name: told[name] for name in STEP_DEFAULTS if told.get(name) is not None}
    return {name: value for name, value in given.items() if name != "schema" or value}


def _kind(node: Located, kind: Any, known: tuple[str, ...], fallback: str, problems: Problems) -> str:
    if kind in known:
        return str(kind)
    available = ", ".join(known)
    if kind in KINDS:
        problems.add(node.value["kind"], f'A step of the kind "{kind}" cannot stand inside another. Here: {available}.')
    else:
        problems.add(node.value["kind"], f'Unknown kind "{kind}". Available: {available}.')
    return fallback


def _limited(node: Located, name: str, problems: Problems) -> list[Located]:
    nodes = listed(node, name, problems)
    if len(nodes) > MAX_INNER:
        problems.add(node.value[name], f"A step has at most {MAX_INNER} {name}.")
        return []
    if len(nodes) > 1:
        refuse_twice("key", ((each.value["key"].plain(), each) for each in nodes if child(each, "key")), problems)
    return nodes


def _inner_steps(node: Located, name: str, what: str, problems: Problems) -> tuple[StepDefinition, ...]:
    nodes = _limited(node, name, problems)
    return tuple(_inner_step(each, place, what, problems) for place, each in enumerate(nodes))


def _inner_step(node: Located, place: int, what: str, problems: Problems) -> StepDefinition:
    if child(node, "on_failure"):
        words = "A step inside another has no on_failure of its own: that would be nested deeper than one."
        problems.add(node.value["on_failure"], words)
        rest = {name: inner for name, inner in node.items() if name != "on_failure"}
        node = Located(rest, node.line, node.path)
    told = _INNER.read(node, problems, what)
    return StepDefinition(
        key=told.get("key", ""),
        name=told.get("name") or told.get("key", ""),
        position=place,
        kind=_kind(node, told.get("kind") or "task", INNER_KINDS, "task", problems),
        **_plain_fields(told),
    )


def _stage_task(node: Located, problems: Problems) -> StageTask:
    told = _TASK.read(node, problems, "A task")
    if "goal" in told and not told["goal"].strip():
        problems.add(node, "A task needs a goal that says what is to be done.", "goal")
    given = {name: told[name] for name in STAGE_TASK_DEFAULTS if told.get(name) is not None}
    return StageTask(key=told.get("key", ""), goal=told.get("goal", ""), **given)


def _on_failure(node: Located | None, problems: Problems) -> OnFailure | None:
    if node is None:
        return None
    told = _ON_FAILURE.read(node, problems, "on_failure")
    steps = _inner_steps(node, "steps", "A failure step", problems)
    then = " ".join(str(told.get("then") or "fail").split())
    match = _THEN.fullmatch(then)
    if match is None:
        problems.add(node, "This must be fail, continue, or goto and the key of a step.", "then")
        return OnFailure(steps)
    return OnFailure(steps, then.partition(" ")[0], match["key"] or "")

"""Reads the events of a step: which action may stand at which moment, and what each of them takes (05 §1, "Actions").

Pure. Whether a target exists, and whether a template can be read, is for `boards.flows.judging`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from boards.errors import CreateTaskDoesNotWait
from boards.flows import fields
from boards.flows.definition import MOMENTS, TRANSITIONS, actions_from
from boards.flows.document import Located, Problems
from boards.tasks.filed_fields import WAITING

# One of a role, or all of it: both numbers are understood wherever a role may stand.
ROLES: Final = ("members", "operators", "member", "operator")
_THRESHOLD: Final = re.compile(r"all_approve|majority_approve|any_reject|n_approve:[1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """At which moments a type of action may stand, what it needs and what else it takes."""

    moments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


_SIDE_EFFECT: Final = ("on_enter", "on_turn_complete", "on_exit")
_MOVES: Final = ("on_turn_start", "on_turn_complete")
# What a transition takes on completion; when a turn starts it moves without condition.
ON_COMPLETION: Final = ("when", "requires_approval", "quorum")

ACTIONS: Final[Mapping[str, ActionSpec]] = {
    "auto_start": ActionSpec(("on_enter",)),
    "set_data": ActionSpec(_SIDE_EFFECT, ("data",)),
    "notify": ActionSpec(_SIDE_EFFECT, ("message",), ("to",)),
    "reset_context": ActionSpec(_SIDE_EFFECT),
    "create_task": ActionSpec(_SIDE_EFFECT, ("goal",), ("title", "assignee")),
    "move_to_next": ActionSpec(_MOVES, (), ON_COMPLETION),
    "move_to_previous": ActionSpec(_MOVES, (), ON_COMPLETION),
    "move_to_step": ActionSpec(_MOVES, ("step",), ON_COMPLETION),
}

_EVENTS: Final = fields.Fields(dict.fromkeys(MOMENTS, fields.plain))
_QUORUM: Final = fields.Fields({"role": fields.one_of(*ROLES), "threshold": fields.text}, ("role", "threshold"))


def _quorum(at: Located, problems: Problems) -> dict[str, Any] | None:
    if at.value is None:
        return None
    told = _QUORUM.read(at, problems, "A quorum")
    if "threshold" in told and not _THRESHOLD.fullmatch(told["threshold"]):
        words = "This must be all_approve, majority_approve, any_reject, or n_approve: and a number, as in n_approve:2."
        problems.add(at.value["threshold"], words)
    return told


_ACTION: Final = fields.Fields(
    {
        "type": fields.text,
        "step": fields.text,
        "when": fields.text,
        "requires_approval": fields.flag,
        "quorum": _quorum,
        "data": fields.mapping,
        "message": fields.text,
        "to": fields.roster_name,
        "goal": fields.text,
        "title": fields.text,
        "assignee": fields.roster_name,
    },
    ("type",),
    dict.fromkeys(
        WAITING, f"An action waits for nothing ({CreateTaskDoesNotWait.code}): work that is waited for is a step."
    ),
)


def moments(at: Located | None, problems: Problems) -> dict[str, Any]:
    """The actions of each moment under `events`, by the moment's name."""
    if at is None:
        return {}
    told = _EVENTS.read(at, problems, "The events")
    return {moment: _actions(at.value[moment], moment, problems) for moment in told}


def _actions(at: Located, moment: str, problems: Problems) -> Any:
    if at.value is None:
        return ()
    if not isinstance(at.value, list):
        problems.add(at, f'"{moment}" must be a list of actions.')
        return ()
    read = [_action(each, moment, problems) for each in at.value]
    return actions_from(action for action in read if action is not None)


def _action(at: Located, moment: str, problems: Problems) -> dict[str, Any] | None:
    if isinstance(at.value, str):
        at = Located({"type": Located(at.value, at.line, at.path)}, at.line, at.path)
    told = _ACTION.read(at, problems, "An action")
    kind = told.get("type", "")
    if not kind:
        return None
    spec = ACTIONS.get(kind)
    if spec is None:
        problems.add(at, f'Unknown action "{kind}". Available: {", ".join(ACTIONS)}.')
        return None
    if moment not in spec.moments:
        problems.add(at, f'"{kind}" may stand under {" and ".join(spec.moments)} only.')
    _judge_parts(at, kind, moment, told, problems)
    return {name: value for name, value in told.items() if value not in ("", None, False)}


def _judge_parts(at: Located, kind: str, moment: str, told: dict[str, Any], problems: Problems) -> None:
    spec = ACTIONS[kind]
    for name in spec.needs:
        value = told.get(name)
        if not (value.strip() if isinstance(value, str) else value):
            problems.add(at, _NEEDS[name].format(kind=kind), name)
    for name in told:
        if name in ("type", *spec.needs):
            continue
        if name not in spec.takes:
            problems.add(at.value[name], _WHEN if name == "when" else f'"{kind}" takes no "{name}".')
        elif kind in TRANSITIONS and moment != "on_turn_complete":
            problems.add(at.value[name], f'A "{name}" belongs to a transition under on_turn_complete.')


_WHEN: Final = 'A "when" belongs to a transition under on_turn_complete.'
_NEEDS: Final = {
    "step": '"{kind}" needs the key of a step.',
    "data": '"{kind}" needs a mapping of names and values.',
    "message": '"{kind}" needs a message.',
    "goal": '"{kind}" needs a goal that says what is to be done.',
}

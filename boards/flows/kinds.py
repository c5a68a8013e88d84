"""Which fields of a step have an effect on which kind: one table for validation, the form and the document (05 §1).

Pure. A field that stands in `OF_ONE_KIND` is refused on any other kind; every other field goes with all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from boards.flows.definition import KINDS

_TASK: Final = ("assignee", "prompt", "checker", "max_attempts", "timeout_ms", "auto_advance_requires_signal")

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "agent": _TASK,
    "task": _TASK,
    "approval": ("assignee", "prompt", "draft", "timeout_ms"),
    "input": ("assignee", "prompt", "schema", "timeout_ms"),
    "wait": ("duration_ms", "until", "event"),
    "choice": ("choices",),
    "parallel": ("branches", "join", "timeout_ms"),
    "stage": ("assignee", "tasks", "timeout_ms"),
    "loop": ("assignee", "tasks", "judge", "replanner", "finalize", "max_iterations", "timeout_ms"),
    "call": ("flow", "inputs"),
    "notify": ("prompt", "to"),
    "column": _TASK,
}
# What a step of the kind cannot do without, and the sentence that says so.
NEEDED: Final[Mapping[str, Mapping[str, str]]] = {
    "input": {"schema": 'An input step needs a "schema" with the properties that its form asks for.'},
    "choice": {
        "choices": 'A choice needs "choices": a list of ways, each with a "step" and, but for the last, a "when".'
    },
    "parallel": {"branches": 'A parallel step needs "branches": the steps that run side by side.'},
    "stage": {"tasks": 'A stage needs "tasks".'},
    "loop": {
        "judge": 'A loop needs a "judge": the name of the Python function that says whether it is done.',
        "max_iterations": 'A loop needs "max_iterations", so that it comes to an end.',
        "tasks": 'A loop needs "tasks": what it begins with.',
    },
    "call": {"flow": 'A call needs a "flow": the key of the flow that it starts.'},
    "notify": {"prompt": 'A notify step needs a "prompt": its message.'},
}
OF_ONE_KIND: Final = frozenset(name for names in FIELDS.values() for name in names)
# The kinds of the steps inside a step: branches of a parallel, and what runs when a step failed.
INNER_KINDS: Final = ("agent", "task", "approval", "input")


def kinds_with(name: str) -> tuple[str, ...]:
    """The kinds on which a field has an effect."""
    return tuple(kind for kind in KINDS if name in FIELDS[kind])

"""Adapters start one worker each and say once how it ended. They import no Django and know no database.

The rules that hold for every adapter stand here as types, and one contract suite runs over all of them
(`tests/workers/test_contract.py`; spec: 03 section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Protocol

from boards.workers.protocol import Port, TaskFacts


@dataclass(frozen=True)
class Job:
    """One run of a worker. `config` is the roster entry's, `folder` the default working folder under the
    root.
    """

    facts: TaskFacts
    port: Port
    config: Mapping[str, Any]
    folder: str = ""
    context: Context = field(default_factory=copy_context)


@dataclass(frozen=True, slots=True)
class Finished:
    """The worker's work is over. `has_result`: whether it handed something in."""

    output: Any = None
    has_result: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """It failed; `error` is a sentence for the card, `detail` what a developer wants to read."""

    error: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class EndedForGood:
    """It raised `EndsForGood` for the task `task_id`."""

    task_id: str
    reason: str
    ending: str


@dataclass(frozen=True, slots=True)
class Asked:
    """It stopped until a person answers."""


@dataclass(frozen=True, slots=True)
class StoppedEarly:
    """It was told to stop and ended without a result."""


Ending = Finished | Failed | EndedForGood | Asked | StoppedEarly
OnEnd = Callable[[Ending], None]


class Running(Protocol):
    """A worker at work. Its adapter calls `on_end` exactly once, from any thread, when nothing of it runs
    any more.
    """

    @property
    def can_be_killed(self) -> bool:
        """Whether `kill` is certain to end it (a program), or may be ignored (Python code in this process)."""

    @property
    def shares_loop(self) -> bool:
        """Whether a worker that blocks the event loop holds it up."""

    def cancel(self) -> None:
        """Ask it to stop. Never blocks; safe to repeat, and after its end."""

    def kill(self) -> None:
        """End it now, as far as that can be done. Never blocks; safe to repeat, and after its end."""


class Adapter(Protocol):
    def can_run(self, config: Mapping[str, Any]) -> bool:
        """Whether this host has what the roster entry names."""

    def start(self, job: Job, on_end: OnEnd) -> Running:
        """Start a worker. What cannot be started ends as `Failed`, with a sentence; nothing is raised."""

    def close(self) -> None:
        """Let go of threads and loops. Workers that still run are left alone."""

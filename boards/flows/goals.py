"""Functions that judge, replan and finalize a goal: registered by name, named in `loop` steps (spec: 03 section 6).

An installed app's `workers.py` registers them: `@goal("good_enough")` over a function of one `GoalState`. They run in
whichever process pays what the loop owes, outside of transactions, and may run again after a crash.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

MAX_TASKS: Final = 200


@dataclass(frozen=True, slots=True)
class GoalState:
    """What a goal's function sees. `tasks`: of all iterations, oldest first: {"key", "iteration", "status", "output",
    "error"}; `verdict`: the judge's, for the replanner; `reason`: why the loop ended, for `finalize`.
    """

    iteration: int
    max_iterations: int
    inputs: Mapping[str, Any]
    data: Mapping[str, Any]
    tasks: Sequence[Mapping[str, Any]]
    verdict: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


class Decision(StrEnum):
    DONE = "done"
    CONTINUE = "continue"
    REPLAN = "replan"


GOALS: Final[dict[str, Callable[[GoalState], Any]]] = {}


def goal(name: str) -> Callable[[Function], Function]:
    """Register a function under a name that `judge`, `replanner` and `finalize` of a flow use.

    A judge answers {"decision": "done" | "continue" | "replan", "reason": text, "tasks"?: [...]}, a replanner a list of
    tasks ({"goal", "key"?, "title"?, "assignee"?, "deps"?}), a finalizer whatever is to stand in the step's output.
    """

    def register(function: Function) -> Function:
        known = GOALS.get(name)
        if not name.strip() or inspect.iscoroutinefunction(function):
            raise ValueError(f"A goal's function needs a name and is not async: {function.__qualname__}.")
        if known is not None and inspect.getsourcefile(known) != inspect.getsourcefile(function):
            raise ValueError(f"Two goal functions are called {name!r}. Rename one.")
        GOALS[name] = function
        return function

    return register


def checked_verdict(told: Any) -> dict[str, Any]:
    """A judge's answer as it is stored. Raises ValueError with a sentence where it is none."""
    if not isinstance(told, Mapping) or told.get("decision") not in set(Decision):
        raise ValueError("The judge answered no decision: done, continue or replan.")
    tasks = checked_tasks(told["tasks"]) if told.get("tasks") else []
    return {"decision": str(told["decision"]), "reason": str(told.get("reason") or "")[:2000], "tasks": tasks}


def checked_tasks(told: Any) -> list[dict[str, Any]]:
    """Tasks that a judge or replanner wants, each with a key. Raises ValueError with a sentence."""
    if not isinstance(told, Sequence) or isinstance(told, str) or len(told) > MAX_TASKS:
        raise ValueError(f"Tasks of a goal are a list of at most {MAX_TASKS}.")
    made = []
    for place, each in enumerate(told, 1):
        given = {"goal": each} if isinstance(each, str) else each
        if not isinstance(given, Mapping) or not str(given.get("goal") or "").strip():
            raise ValueError(f"Task {place} of the goal has no goal.")
        texts = {name: str(given.get(name) or "") for name in ("goal", "title", "assignee")}
        made.append(
            texts | {"key": str(given.get("key") or place), "deps": [str(dep) for dep in given.get("deps") or ()]}
        )
    return made

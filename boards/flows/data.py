"""What prompts, conditions and step tasks are told of a run: its inputs, data, and the outputs of its steps.

Reads only. The same values stand in a template as `input`, `steps`, `run`, `data`, and in a task's input.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from boards.flows.definition import FlowDefinition
from boards.models import FlowRun, Visit

# A task's input is refused over 1 MiB; below that, the oldest outputs are left out first, with a note.
MAX_INPUT_BYTES: Final = 900_000


def visits_of(run: FlowRun) -> list[Visit]:
    """The run's stays, oldest first; for whoever asks more than one of these functions."""
    return list(run.visits.order_by("pk"))


def values(
    run: FlowRun, flow: FlowDefinition, output: Any = None, *, visits: Sequence[Visit] | None = None
) -> dict[str, Any]:
    """The names that templates know. `output` is that of the turn which just ended, for conditions."""
    steps: dict[str, dict[str, Any]] = {step.key: {"output": None, "error": ""} for step in flow.steps}
    for visit in visits_of(run) if visits is None else visits:
        if visit.step_key in steps:
            told = steps[visit.step_key]
            told["error"] = visit.error
            if visit.output is not None:
                told["output"] = visit.output
    # An input that was left out reads as empty text, so that `input.x or "…"` works under strict names.
    given = dict.fromkeys(flow.inputs.get("properties") or {}, "") | run.inputs
    return {"input": given, "steps": steps, "run": about(run), "data": run.data, "output": output}


def about(run: FlowRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "number": run.number,
        "flow": run.flow.key,
        "space": run.flow.space.slug,
        "started_by": run.started_by_name,
    }


def task_input(run: FlowRun, visits: Sequence[Visit]) -> dict[str, Any]:
    """What a step's task gets: {"inputs", "run", "steps": {key: {"output", "earlier"?: [oldest first]}}}."""
    outputs: dict[str, list[Any]] = {}
    for visit in visits:
        if visit.output is None or visit.number < run.context_from:
            continue
        # The newest visit's step goes last, so that what is left out first is the oldest.
        outputs[visit.step_key] = [*outputs.pop(visit.step_key, []), visit.output]
    steps: dict[str, dict[str, Any]] = {}
    for key, told in outputs.items():
        steps[key] = {"output": told[-1]} | ({"earlier": told[:-1]} if len(told) > 1 else {})
    base: dict[str, Any] = {"inputs": run.inputs, "run": about(run)}
    return base | {"steps": _fitting(steps, MAX_INPUT_BYTES - _size(base))}


def _fitting(steps: dict[str, dict[str, Any]], room: int) -> dict[str, dict[str, Any]]:
    for key in list(steps):
        if _size(steps) <= room:
            break
        steps[key].pop("earlier", None)
    for key in list(steps):
        if _size(steps) <= room:
            break
        steps[key] = {"output": None, "note": "Left out: all outputs together are larger than a task's input may be."}
    return steps


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))

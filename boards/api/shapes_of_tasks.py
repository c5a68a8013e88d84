"""Tasks as JSON, and what is said to file and to change them (spec: 01 sections 1, 3 and 4; 06 section 2)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, Literal

from pydantic import Field, model_validator
from pydantic import SkipValidation as Given

from boards.api.shapes import Body, JsonObject, Moment, Paged, Told, said
from boards.models import Hold, Task, TaskDep
from boards.states import HoldState
from boards.tasks import Filing, HoldFiling, spend_of
from boards.tasks.filed_fields import refuse_waiting
from boards.wire import MAX_OUTPUT, task_wire

MAX_GOAL_SHOWN: Final = 2_000  # of a task in a list


class OptionBody(Body):
    value: str
    label: str = ""
    description: str = ""


class HoldBody(Body):
    """A question or a confirm that is to be answered before the task can start."""

    kind: Literal["question", "confirm"]
    prompt: Given[str]
    title: Given[str] = ""
    context: Given[str] = ""
    options: list[OptionBody] = Field(default=[])
    due_at: Moment = None
    default: Given[str] = Field("", description="The answer that stands where nobody gives one in time.")


class TaskFields(Body):
    """What a filer gives for one task. Everything but `goal` may be left out."""

    goal: Given[str] = Field(description="The full, self-contained objective.")
    id: Given[str] = Field("", description="An id of one's own; else one is made.")
    title: Given[str] = ""
    context: Given[str] = Field("", description="Prose that a worker reads.")
    input: Given[JsonObject] = Field(default={}, description="The typed payload: a JSON object.")
    labels: Given[list[str]] = Field(default=[])
    metadata: Given[JsonObject] = Field(default={})
    priority: Given[int] = 0
    due_at: Moment = Field(None, description="When somebody wants it done, with its offset. It ends nothing by itself.")
    deps: Given[list[str]] = Field(default=[], description="Ids of tasks that have to be completed first.")
    assignee: Given[str] = Field("", description="A name of the board's roster.")
    max_attempts: Given[int | None] = None
    checker: Given[str] = Field("", description="none, person, or a name of the roster; empty: as the board says.")
    held: bool = Field(False, description="Not to be started before it is released.")
    follow_up_of: Given[str] = Field("", description="The task whose conversation this goes on with.")
    holds: list[HoldBody] = Field(default=[])

    @model_validator(mode="before")
    @classmethod
    def _waits_for_nothing(cls, given: Any) -> Any:
        if isinstance(given, dict):
            refuse_waiting(given)
        return given


class BatchBody(Body):
    """Up to 1,000 tasks: all of them are filed, or none."""

    tasks: list[TaskFields]

    @model_validator(mode="before")
    @classmethod
    def _waits_for_nothing(cls, given: Any) -> Any:
        if isinstance(given, dict):
            refuse_waiting(given)
            for index, each in enumerate(given["tasks"] if isinstance(given.get("tasks"), list) else ()):
                if isinstance(each, dict):
                    refuse_waiting(each, index=index)
        return given


class UpdateBody(Body):
    """Fields to change. `status` cancelled and `message` are sent alone; `metadata` merges, null removes a name."""

    goal: Given[str] = ""
    title: Given[str] = ""
    context: Given[str] = ""
    input: Given[JsonObject] = Field(default={})
    labels: Given[list[str]] = Field(default=[])
    metadata: Given[JsonObject] = Field(default={})
    priority: Given[int] = 0
    due_at: Moment = None
    deps: Given[list[str]] = Field(default=[])
    assignee: Given[str] = ""
    max_attempts: Given[int | None] = None
    checker: Given[str] = ""
    status: Literal["held", "pending", "cancelled"] | None = None
    message: Given[str] = Field("", description="Words to whoever works on it.")


class CancelBody(Body):
    reason: Given[str] = ""
    cancel_filed: bool = Field(False, description="Also cancel the tasks that this one filed.")


class ReleaseBody(Body):
    assignee: Given[str | None] = Field(None, description="Who it goes to; left out, it stays as it is.")


class AcceptBody(Body):
    words: Given[str] = Field("", description="What is said of it, if anything: it stands with the verdict.")


class SendBackBody(Body):
    words: Given[str] = Field(description="What is missing: the next attempt reads it.")


class NoBody(Body):
    """Nothing has to be said."""


class ListQuery(Paged):
    status: str = Field("", max_length=20)
    assignee: str = Field("", max_length=100)
    label: str = Field("", max_length=100)
    filed_by_task: str = Field("", max_length=200)
    text: str = Field("", max_length=200, description="In title or goal, or an id.")


class CurrentTold(Told):
    id: str
    output: Any
    output_cut: bool = False


class RunLink(Told):
    session_id: str | None = None
    request_id: str | None = None
    attempt: int | None = None


class HoldBrief(Told):
    id: int
    kind: str
    state: str
    prompt: str


class TaskBrief(Told):
    """A task in a list."""

    id: str
    goal: str
    goal_cut: bool = False
    title: str
    status: str
    assignee: str
    attempts: int
    priority: int
    labels: list[str]
    due_at: str | None
    run: JsonObject | None
    holds: list[HoldBrief] = Field(description="Those that are open.")
    kept_open_by: str
    current: dict[str, str] | None = Field(None, description="The latest completed follow-up: {id}.")
    updated_at: str


class TaskTold(Told):
    """A task, whole. What is longer than 20,000 characters as JSON comes as text that is cut there, and says so."""

    id: str
    board: str
    goal: str
    title: str
    context: str
    input: Any
    input_cut: bool = False
    labels: list[str]
    metadata: Any
    metadata_cut: bool = False
    priority: int
    due_at: str | None
    deps: list[str]
    assignee: str
    checker: str
    max_attempts: int | None
    follow_up_of: str | None
    filed_by_task: str | None
    filer: str
    filed_by: str
    stage: str
    required: bool | None
    status: str
    attempts: int
    failures: int
    abandonments: int
    retry_ledger: JsonObject | None
    status_note: str
    kept_open_by: str
    holds: list[HoldBrief]
    output: Any
    output_cut: bool = False
    checkpoint: bool = False
    error: str
    feedback: str
    steers: list[JsonObject]
    lease_until: str | None
    lease_duration_ms: int | None
    run: JsonObject | None
    spend: JsonObject | None = Field(description="What its requests have spent: {requests}; null: none has reported.")
    withdrawn: JsonObject | None
    cancelled_via: str
    current: CurrentTold | None = None
    created_at: str
    updated_at: str
    started_at: str | None
    completed_at: str | None
    revision: int = Field(ge=1, le=2**63 - 1)
    incarnation_id: str


class OneTask(Told):
    task: TaskTold


class ManyTasks(Told):
    tasks: list[TaskBrief]


class TaskPage(Told):
    tasks: list[TaskBrief]
    next: str | None = Field(description="The cursor of the next page; null: this is the last one.")


class Written(Told):
    """What a write did: `recorded`, or `unchanged` where the task was so already."""

    result: Literal["recorded", "unchanged"]
    task: TaskTold


def filing_of(fields: TaskFields) -> Filing:
    """As the engine takes it; it judges every field."""
    told = said(fields)
    holds = [_hold_of(each) for each in told.pop("holds", [])]
    return replace(Filing(goal=told.pop("goal")), **told, holds=holds)


def _hold_of(body: HoldBody) -> HoldFiling:
    told = said(body)
    options = [each.model_dump(exclude_unset=True) for each in told.pop("options", [])]
    return replace(HoldFiling(told.pop("kind"), told.pop("prompt")), **told, options=options)


def task_told(task: Task) -> dict[str, Any]:
    """One task, whole; `task.board` is loaded."""
    edges = TaskDep.objects.filter(dependent=task.pk).order_by("pk").values_list("dependency__public_id", flat=True)
    beside = [key for key in (task.follow_up_of_id, task.filed_by_task_id) if key is not None]
    names = dict(Task.objects.filter(pk__in=beside).values_list("pk", "public_id")) if beside else {}
    wire = task_wire(task, deps=tuple(edges), follow_up_of=names.get(task.follow_up_of_id or 0, ""))
    holds = Hold.objects.filter(task=task.pk).order_by("pk")
    told = wire | {
        "board": task.board.slug,
        "filed_by_task": names.get(task.filed_by_task_id or 0),
        "holds": [hold_brief(hold) for hold in holds],
        "spend": spend_of(task),
    }
    for name in ("input", "metadata", "output"):
        told |= _cut(name, told[name])
    return told


def briefs(tasks: Iterable[Task]) -> list[dict[str, Any]]:
    """Tasks as a list shows them; two queries for all."""
    rows = list(tasks)
    open_: dict[int, list[dict[str, Any]]] = {task.pk: [] for task in rows}
    for hold in Hold.objects.filter(task__in=open_, state=HoldState.OPEN).order_by("pk"):
        open_[hold.task_id or 0].append(hold_brief(hold))
    return [_brief(task, open_[task.pk]) for task in rows]


def _brief(task: Task, holds: list[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": task.public_id,
        "goal": task.goal[:MAX_GOAL_SHOWN],
        "title": task.title,
        "status": task.status,
        "assignee": task.assignee,
        "attempts": task.attempts,
        "priority": task.priority,
        "labels": task.labels,
        "due_at": task.due_at.isoformat() if task.due_at else None,
        "run": task.run,
        "holds": holds,
        "kept_open_by": task.kept_open_by,
        "updated_at": task.updated_at.isoformat(),
    }
    told |= {"goal_cut": True} if len(task.goal) > MAX_GOAL_SHOWN else {}
    return told | ({"current": {"id": task.current.public_id}} if task.current is not None else {})


def hold_brief(hold: Hold) -> dict[str, Any]:
    return {"id": hold.pk, "kind": hold.kind, "state": hold.state, "prompt": hold.prompt}


def _cut(name: str, value: Any) -> dict[str, Any]:
    text = json.dumps(value, ensure_ascii=False)
    return {name: text[:MAX_OUTPUT], f"{name}_cut": True} if len(text) > MAX_OUTPUT else {}

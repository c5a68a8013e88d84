"""Flows, their runs, and what waits on people, as JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from boards.api.shapes import BIGGEST, Body, JsonObject, Paged, Query, Told
from boards.api.shapes_of_holds import HoldTold, RunRef, hold_wire
from boards.flows import FlowDefinition
from boards.models import Flow, FlowRun, Hold, Visit
from boards.queries.waiting_row import Row
from boards.states import HoldState


class BoardTold(Told):
    id: int
    slug: str
    name: str
    paused: bool
    checker: str
    roster: list[str] = Field(description="The names that tasks may be assigned to.")


class BoardPage(Told):
    boards: list[BoardTold]
    next: str | None


class StepTold(Told):
    key: str
    name: str
    kind: str


class FlowTold(Told):
    key: str
    name: str
    description: str
    board: str
    style: str
    version: int | None = Field(description="The newest one, which a start runs; null: none was saved yet.")
    inputs: JsonObject = Field(description="The JSON schema of what a start asks for.")
    steps: list[StepTold]


class FlowPage(Told):
    flows: list[FlowTold]
    next: str | None


class StartBody(Body):
    inputs: JsonObject = Field(default={}, description="What the flow's inputs ask for.")
    name: str = Field("", description="What the run is called.")
    step: str = Field("", max_length=80, description="The step it begins in, where that is not the first.")
    priority: int = Field(0, ge=-1_000_000, le=1_000_000, description="Higher ones are let into a full step first.")


class MoveBody(Body):
    """`visit`: `id` of the run's visit as it was read; a run that has moved on meanwhile is not moved again."""

    step: str = Field(max_length=80)
    cancel_turn: bool = Field(False, description="Stop what works in the step first.")
    visit: int | None = Field(None, ge=0, le=2**63 - 1)


class RunsQuery(Paged):
    status: Literal["", "active", "completed", "failed", "cancelled"] = ""
    archived: bool = Field(False, description="Those in the archive, in place of the others.")


class VisitTold(Told):
    id: int
    number: int
    step: str
    phase: str
    task: str | None
    entered_at: str
    left_at: str | None
    due_at: str | None
    error: str


class RunBrief(Told):
    flow: str
    run: int
    name: str
    status: str
    step: str
    queued_step: str = Field(description="The step for a place in which it waits; empty: it waits for none.")
    priority: int
    started_by: str
    error: str
    created_at: str
    completed_at: str | None
    archived_at: str | None
    revision: int


class RunTold(RunBrief):
    """A run, whole: where it stands, and every stay of it in a step, oldest first."""

    version: int
    inputs: JsonObject
    data: JsonObject
    visit: VisitTold | None
    visits: list[VisitTold]
    holds: list[HoldTold] = Field(description="What it waits on people for.")


class OneRun(Told):
    run: RunTold


class RunPage(Told):
    runs: list[RunBrief]
    next: str | None


class OneHold(Told):
    hold: HoldTold


class WaitingQuery(Query):
    limit: int = Field(50, ge=1, le=200, description="How many at most.")
    cursor: str = Field("", max_length=500)
    whose: Literal["all", "mine", "role"] = "all"
    kind: str = Field("", max_length=20)
    board: str = Field("", max_length=100)
    agent: str = Field("", max_length=100)
    flow: str = Field("", max_length=100)
    text: str = Field("", max_length=200)


class WaitingTold(Told):
    """One thing that waits on a person."""

    kind: str
    title: str
    words: str
    who: str
    since: str
    mine: bool
    blocks: bool = Field(description="Whether work waits for it; else it only wants to be read.")
    board: str
    due_at: str | None
    if_nobody: str = Field(description="What happens where nobody does anything.")
    priority: int
    hold: int | None
    task: str | None
    run: RunRef | None
    step: str
    acts: list[str]


class WaitingPage(Told):
    waiting: list[WaitingTold]
    total: int = Field(le=BIGGEST)
    next: str | None


def flow_told(flow: Flow, definition: FlowDefinition | None, version: int | None) -> dict[str, Any]:
    steps = definition.steps if definition else ()
    return {
        "key": flow.key,
        "name": flow.name,
        "description": flow.description,
        "board": flow.board.slug,
        "style": definition.style if definition else "",
        "version": version,
        "inputs": dict(definition.inputs) if definition else {},
        "steps": [{"key": step.key, "name": step.name, "kind": step.kind} for step in steps],
    }


def run_brief(run: FlowRun) -> dict[str, Any]:
    return {
        "flow": run.flow.key,
        "run": run.number,
        "name": run.name,
        "status": run.status,
        "step": run.step_key,
        "queued_step": run.queued_step,
        "priority": run.priority,
        "started_by": run.started_by_name,
        "error": run.error,
        "created_at": run.created_at.isoformat(),
        "completed_at": run.completed_at.isoformat() if run.completed_at else None,
        "archived_at": run.archived_at.isoformat() if run.archived_at else None,
        "revision": run.revision,
    }


def run_told(run: FlowRun) -> dict[str, Any]:
    """One run, whole; three queries."""
    visits = [visit_told(visit) for visit in run.visits.select_related("task").order_by("number")]
    about = Hold.objects.filter(visit__run=run.pk) | Hold.objects.filter(task__visit__run=run.pk)
    open_ = about.filter(state=HoldState.OPEN).select_related(
        "board", "assignee", "task__visit__run__flow", "visit__run__flow"
    )
    current = next((visit for visit in visits if visit["id"] == run.current_visit_id), None)
    return run_brief(run) | {
        "version": run.version.number,
        "inputs": run.inputs,
        "data": run.data,
        "visit": current,
        "visits": visits,
        "holds": [hold_wire(hold) for hold in open_.order_by("pk").distinct()],
    }


def visit_told(visit: Visit) -> dict[str, Any]:
    return {
        "id": visit.pk,
        "number": visit.number,
        "step": visit.step_key,
        "phase": visit.phase,
        "task": visit.task.public_id if visit.task else None,
        "entered_at": visit.entered_at.isoformat(),
        "left_at": visit.left_at.isoformat() if visit.left_at else None,
        "due_at": visit.due_at.isoformat() if visit.due_at else None,
        "error": visit.error,
    }


def waiting_told(row: Row) -> dict[str, Any]:
    run = {"flow": row.flow_key, "run": row.run_number, "name": row.subject} if row.run_number else None
    return {
        "kind": row.group,
        "title": row.title,
        "words": row.words,
        "who": row.who,
        "since": row.since.isoformat(),
        "mine": row.mine,
        "blocks": row.blocks,
        "board": row.board_slug,
        "due_at": row.due_at.isoformat() if row.due_at else None,
        "if_nobody": str(row.silence.then),
        "priority": row.priority,
        "hold": row.hold_id or None,
        "task": row.task_id or None,
        "run": run,
        "step": row.step_key,
        "acts": [act.verb for act in row.acts],
    }

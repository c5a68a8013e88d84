"""Brings a run to its end as willing people and agents would: tasks completed, questions answered with yes."""

from __future__ import annotations

from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from boards import people, sweeping, tasks
from boards.models import Board, FlowRun, Hold, StepChange, Task, Visit
from boards.states import HoldKind, RunStatus, Status
from boards.tasks import Wanted
from tests import cast
from tests.flows.cast import Stage, fresh, settle

MOST = 30
OUTPUT = {"text": "Words"}


def drive(stage: Stage, run: FlowRun, stops_in: str = "") -> list[str]:
    """The keys of the steps that it went through, once it is completed, or stands in the step `stops_in`.

    The test fails where it gets stuck anywhere else.
    """
    for _ in range(MOST):
        settle()
        if fresh(run).status != RunStatus.ACTIVE:
            break
        _let_waits_pass(run)
        sweeping.sweep_once()
        _work(stage, run.flow.board)
        _answer(stage, run)
    now = fresh(run)
    step = now.current_visit.step_key if now.current_visit else ""
    is_there = step == stops_in if stops_in else now.status == RunStatus.COMPLETED
    assert is_there, f"{now.status} in {step}: {now.error}"
    return [change.to_step for change in StepChange.objects.filter(run=run).order_by("pk")]


def _let_waits_pass(run: FlowRun) -> None:
    """The moment of a step that waits has come; nothing else has a due time that may pass."""
    waits = [step.key for step in run.version.steps.filter(kind="wait")]
    Visit.objects.filter(run=run, step_key__in=waits, due_at__gt=Now()).update(due_at=F("entered_at"))


def _work(stage: Stage, board: Board) -> None:
    wanted = [Wanted(board.pk, dict.fromkeys(board.roster.values_list("name", flat=True), 1))]
    while got := tasks.claim(wanted, limit=1, claimed_by=cast.HERE):
        task = got[0].task
        tasks.complete(cast.agent_chain(board, task.assignee), task, OUTPUT, claim=got[0].ticket)
        settle()
    for task in Task.objects.filter(board=board, status=Status.NEEDS_CHECK):
        tasks.accept(stage.anna, task)
        settle()


def _answer(stage: Stage, run: FlowRun) -> None:
    for hold in Hold.objects.filter(visit__run=run, state="open").order_by("pk"):
        answer: dict[str, Any] = {"choice": "approve"}
        if hold.kind == HoldKind.INPUT:
            properties = (hold.schema or {}).get("properties") or {}
            answer = {"values": {name: told.get("default", "") for name, told in properties.items()}}
        people.answer_hold(stage.anna, hold.pk, shown_hash=hold.draft_hash, **answer)
        settle()

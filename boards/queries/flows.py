"""The flows of a space, and the list of one flow's runs (spec: 08 "Flows"). Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, Exists, F, OuterRef, Q, Window
from django.db.models.functions import Coalesce, RowNumber

from boards.models import Debt, Flow, FlowRun, FlowStep, FlowVersion, Hold, Member, Task
from boards.states import TERMINAL, HoldState, Phase, RunStatus, Status

PAGE: Final = 50
_RECENT: Final = 3


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list. `state`: done, stuck, skipped, you, working, stopping, paused or waiting, `since` when."""

    number: int
    name: str
    state: str
    step_name: str
    since: datetime
    started_by: str
    created_at: datetime
    error: str = ""


@dataclass(frozen=True, slots=True)
class FlowCard:
    flow: Flow
    recent: tuple[RunRow, ...]
    active: int
    failed: int
    asks: int
    runs: int


@dataclass(frozen=True, slots=True)
class FlowPage:
    """`runs`: one page, newest first; `next`: the number below which the next page begins, or 0."""

    flow: Flow
    version: FlowVersion | None
    runs: tuple[RunRow, ...]
    next: int
    counts: dict[str, int]


def flow_cards(member: Member) -> list[FlowCard]:
    """Every flow of the space with its newest runs and what waits; four queries."""
    flows = list(Flow.objects.filter(space_id=member.space_id).select_related("board").order_by("name", "pk"))
    counts = {row["flow"]: row for row in _counts(FlowRun.objects.filter(flow__space_id=member.space_id))}
    asks = _asks_by_flow(member)
    ranked = FlowRun.objects.filter(flow__space_id=member.space_id).annotate(
        rank=Window(RowNumber(), partition_by="flow", order_by=F("number").desc())
    )
    recent: dict[int, list[RunRow]] = defaultdict(list)
    for flow_id, row in _rows(ranked.filter(rank__lte=_RECENT).order_by("-number")):
        recent[flow_id].append(row)
    none = {"active": 0, "failed": 0, "runs": 0}
    return [
        FlowCard(
            flow,
            tuple(recent[flow.pk]),
            counts.get(flow.pk, none)["active"],
            counts.get(flow.pk, none)["failed"],
            asks.get(flow.pk, 0),
            counts.get(flow.pk, none)["runs"],
        )
        for flow in flows
    ]


def find_flow(member: Member, key: str) -> Flow | None:
    return Flow.objects.filter(space_id=member.space_id, key=key).select_related("board").first()


def flow_page(flow: Flow, *, before: int = 0) -> FlowPage:
    """One page of the flow's runs, whatever became of them."""
    version = FlowVersion.objects.filter(flow=flow).order_by("-number").first()
    runs = FlowRun.objects.filter(flow=flow).order_by("-number")
    rows = [row for _, row in _rows((runs.filter(number__lt=before) if before else runs)[: PAGE + 1])]
    counted = next(iter(_counts(FlowRun.objects.filter(flow=flow))), {"active": 0, "failed": 0, "runs": 0})
    return FlowPage(
        flow=flow,
        version=version,
        runs=tuple(rows[:PAGE]),
        next=rows[PAGE - 1].number if len(rows) > PAGE else 0,
        counts={name: counted[name] for name in ("active", "failed", "runs")},
    )


def _counts(runs: Any) -> list[dict[str, Any]]:
    return list(
        runs.order_by()
        .values("flow")
        .annotate(
            active=Count("pk", filter=Q(status=RunStatus.ACTIVE)),
            failed=Count("pk", filter=Q(status=RunStatus.FAILED, archived_at=None)),
            runs=Count("pk"),
        )
    )


def _asks_by_flow(member: Member) -> dict[int, int]:
    """Flow id -> how many questions of its runs are open."""
    rows = (
        Hold.objects.filter(state=HoldState.OPEN, board__space_id=member.space_id)
        .annotate(flow=Coalesce("visit__run__flow_id", "task__visit__run__flow_id"))
        .order_by()
        .values_list("flow")
        .annotate(n=Count("pk"))
    )
    return {flow: count for flow, count in rows if flow}


def _rows(runs: Any) -> Iterable[tuple[int, RunRow]]:
    """(flow id, row) of runs, with the names of their steps, and what waits on a person or is stopped; four queries."""
    found = list(runs.select_related("current_visit__task"))
    asking, stopping = _asking(found), _stopping(found)
    names = {
        (version, key): name
        for version, key, name in FlowStep.objects.filter(version__in={r.version_id for r in found}).values_list(
            "version_id", "key", "name"
        )
    }
    for run in found:
        visit = run.current_visit
        step = names.get((run.version_id, visit.step_key), visit.step_key) if visit else ""
        since = run.completed_at or (visit.entered_at if visit else run.created_at)
        yield (
            run.flow_id,
            RunRow(
                run.number,
                run.name,
                "stopping" if run.current_visit_id in stopping else _state(run, run.pk in asking),
                step,
                since,
                run.started_by_name,
                run.created_at,
                run.error if run.status == RunStatus.FAILED else "",
            ),
        )


def _asking(runs: Sequence[FlowRun]) -> set[int]:
    keys = [run.pk for run in runs if run.status == RunStatus.ACTIVE]
    if not keys:
        return set()
    rows = Hold.objects.filter(Q(visit__run__in=keys) | Q(task__visit__run__in=keys), state=HoldState.OPEN)
    return set(rows.values_list(Coalesce("visit__run_id", "task__visit__run_id"), flat=True))


def _stopping(runs: Sequence[FlowRun]) -> set[int]:
    """The stays of which nothing works any more and something is still being stopped."""
    visits = [run.current_visit_id for run in runs if run.current_visit_id is not None]
    if not visits:
        return set()
    stops = Debt.objects.filter(kind="session_stop", task__visit__in=visits, task__status__in=sorted(TERMINAL))
    live = Task.objects.filter(visit=OuterRef("task__visit")).exclude(status__in=sorted(TERMINAL))
    return set(stops.exclude(Exists(live)).values_list("task__visit", flat=True))


def _state(run: FlowRun, asks: bool) -> str:
    ended = {RunStatus.COMPLETED: "done", RunStatus.FAILED: "stuck", RunStatus.CANCELLED: "skipped"}
    if run.status in ended:
        return ended[RunStatus(run.status)]
    visit = run.current_visit
    task = visit.task if visit else None
    if asks or (task is not None and task.status == Status.NEEDS_CHECK):
        return "you"
    if task is not None and not task.is_ended:
        return "working" if task.status == Status.IN_PROGRESS else "queued"
    phases = {Phase.PAUSED: "paused", Phase.WORKING: "working", Phase.FAILURE: "working"}
    return phases.get(Phase(visit.phase), "waiting") if visit is not None else "waiting"

"""Where runs of a flow may be moved by a person, and in words what awaits them there (spec: 05 section 2.7, 5).

Reads only: what stands here shows or greys a way; the engine decides again under the run's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Count
from django.utils.translation import gettext as _

from boards.flows import column_order, decisions, definition
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.flows.limits import is_full, limits_of
from boards.models import Flow, FlowRun, FlowVersion, Task
from boards.queries.run_steps import ICONS
from boards.states import RunStatus, Status

_TAKES_A_PLACE: Final = (RunStatus.ACTIVE, RunStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Way:
    """One step in the menu. `reason`: why it cannot be chosen, ''; `note`: what awaits the run there.

    `back`: it stands before the step where the run is.
    """

    key: str
    name: str
    icon: str
    number: int
    note: str = ""
    reason: str = ""
    back: bool = False


@dataclass(frozen=True, slots=True)
class Moves:
    """`reason`: why nothing can be moved at all; `working`: how many of the runs have a task that works."""

    ways: tuple[Way, ...]
    reason: str = ""
    working: int = 0
    here: str = ""  # the step's key where one run stands, whose order in its column may be changed


def find_runs(flow: Flow, numbers: Sequence[str]) -> list[FlowRun]:
    """The runs of the flow with these numbers, in the order given."""
    wanted = [int(each) for each in numbers if each.isascii() and each.isdigit() and len(each) < 19]
    rows = FlowRun.objects.filter(flow=flow, number__in=wanted).select_related("flow", "version__flow", "current_visit")
    found = {run.number: run for run in rows}
    return [found[number] for number in dict.fromkeys(wanted) if number in found]


def line_number(run: FlowRun) -> int:
    """The place of a queued run in its line."""
    line = FlowRun.objects.filter(flow=run.flow_id, queued_step=run.queued_step, archived_at=None)
    return list(line.order_by(*column_order.QUEUED).values_list("pk", flat=True)).index(run.pk) + 1


def place_key(run: FlowRun, before: str, to: str) -> int:
    """The key of the run before which a card is to stand: one by its number, or the first of its column; 0 for last."""
    runs = FlowRun.objects.filter(flow=run.flow_id, archived_at=None)
    if to == "first":
        there = runs.filter(queued_step=run.queued_step, step_key=run.step_key, status__in=_TAKES_A_PLACE)
        order = column_order.QUEUED if run.queued_step else column_order.IN_STEP
        return there.exclude(pk=run.pk).order_by(*order).values_list("pk", flat=True).first() or 0
    is_number = before.isascii() and before.isdigit() and len(before) < 19
    found = runs.filter(number=int(before)) if is_number and not to else runs.none()
    return found.values_list("pk", flat=True).first() or 0


def moves_of(flow: Flow, runs: Sequence[FlowRun]) -> Moves:
    """The ways of these runs; of several, the newest version's steps, and each run is judged when it is moved."""
    newest = FlowVersion.objects.filter(flow=flow).select_related("flow").order_by("-number").first()
    if newest is None:
        return Moves((), _("This flow has no version yet."))
    limits = limits_of(definition.steps_of(newest))
    taken, lines = _occupancy(flow)
    run = runs[0] if len(runs) == 1 else None
    told = definition.load(run.version if run else newest)
    here = told.step(run.queued_step or run.step_key) if run else None
    ways = []
    for number, step in enumerate(told.steps, start=1):
        if here is not None and step.key == here.key:
            continue
        full = is_full(limits.of(step.key), taken.get(step.key, 0)) and not told.is_terminal(step)
        note = (
            _("Full: it queues there as number %(n)s") % {"n": lines.get(step.key, 0) + 1}
            if full
            else _does(told, step)
        )
        reason = _reason(told, run, here, step)
        back = here is not None and step.position < here.position
        ways.append(Way(step.key, step.name, ICONS.get(step.kind, "board"), number, reason or note, reason, back))
    live = run is not None and run.status in _TAKES_A_PLACE and run.archived_at is None
    return Moves(tuple(ways), _no_way(run), _working(runs), here.key if here and live else "")


def _occupancy(flow: Flow) -> tuple[dict[str, int], dict[str, int]]:
    """Step key -> how many take a place there, and how many wait for one."""
    rows = FlowRun.objects.filter(flow=flow, archived_at=None, status__in=_TAKES_A_PLACE).order_by()
    taken: dict[str, int] = {}
    lines: dict[str, int] = {}
    for step, queued, count in (
        rows.values("step_key", "queued_step").annotate(n=Count("pk")).values_list("step_key", "queued_step", "n")
    ):
        if queued:
            lines[queued] = count
        else:
            taken[step] = count
    return taken, lines


def _no_way(run: FlowRun | None) -> str:
    """Why the one run cannot be moved anywhere."""
    if run is None:
        return ""
    if run.status == RunStatus.CANCELLED:
        return _("It was cancelled, so it moves no more. Start it again instead.")
    return _("Take it out of the archive to move it.") if run.archived_at else ""


def _reason(flow: FlowDefinition, run: FlowRun | None, here: StepDefinition | None, step: StepDefinition) -> str:
    if run is None:
        return ""
    return decisions.move_refusal(flow, here, step, RunStatus(run.status), is_archived=run.archived_at is not None)


def _does(flow: FlowDefinition, step: StepDefinition) -> str:
    """What entering the step does."""
    if flow.is_terminal(step):
        return _("The run is complete there")
    if step.files_task:
        who = step.assignee or flow.agent
        return _("Starts %(who)s") % {"who": who} if who else _("Files a task")
    if step.kind in definition.ASKING_KINDS:
        return _("Asks a person")
    return _("Waits for a person to move it on") if step.kind == "column" else ""


def _working(runs: Sequence[FlowRun]) -> int:
    visits = [run.current_visit_id for run in runs if run.current_visit_id]
    works = Task.objects.filter(visit__in=visits, status__in=[Status.IN_PROGRESS, Status.NEEDS_CHECK])
    return works.values("visit").distinct().count()

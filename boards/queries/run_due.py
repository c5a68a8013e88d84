"""The due time of a run's current step, and what became of due times, as the run page shows them (spec: 05 section 4).

Reads only. Whether a due time may still be moved is decided again by the flow engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.utils.translation import gettext as _

from boards.models import Debt, Event, FlowRun, Task, Visit
from boards.queries.run_steps import StepView
from boards.states import TERMINAL, Phase, RunStatus

_ENDED: Final = sorted(TERMINAL)


@dataclass(frozen=True, slots=True)
class Countdown:
    """The due time of the current stay: seconds used of those it has. `asks`: it runs on although a person is asked.

    `withdraws`: past it the step's task is withdrawn; else it is the due time of the question that the step asks.
    """

    due_at: datetime
    step_name: str
    used: int
    given: int
    asks: bool
    withdraws: bool = True


@dataclass(frozen=True, slots=True)
class DueMoment:
    """One line of the history. `what` is bold; `rest`: the words of whoever did it, or ""."""

    what: str
    rest: str
    at: datetime


def countdown(run: FlowRun, steps: Sequence[StepView], *, works: bool, asks: bool, now: datetime) -> Countdown | None:
    """The due time that still runs. `works`: a task of the stay is open; `asks`: a question of it is."""
    visit = run.current_visit
    if visit is None or visit.due_at is None or visit.left_at or not (works or asks or _waits(visit)):
        return None
    if run.status != RunStatus.ACTIVE or visit.phase == Phase.FAILURE:
        return None
    name = next((step.name for step in steps if step.key == visit.step_key), visit.step_key)
    used = int((now - visit.entered_at).total_seconds())
    given = max(int((visit.due_at - visit.entered_at).total_seconds()), 1)
    return Countdown(visit.due_at, name, min(max(used, 0), given), given, asks, works)


def _waits(visit: Visit) -> bool:
    """A step that waits for a moment and for nothing else."""
    return visit.phase == Phase.WAITING and visit.task_id is None and visit.output is None


def stops_of(run: FlowRun) -> set[str]:
    """The causes of the stops that the current stay still owes; empty where nothing of it is being stopped."""
    stops = Debt.objects.filter(kind="session_stop", task__visit=run.current_visit_id or 0, task__status__in=_ENDED)
    return {str(data.get("cause", "")) for data in stops.values_list("data", flat=True)}


def due_moments(run: FlowRun) -> list[DueMoment]:
    """What was done about due times: moved by whom to when and why, and what was withdrawn; one query."""
    events = Event.objects.filter(run=run, kind__in=["step.due_moved", "task.withdrawn"]).select_related("task")
    return [_moved(event) if event.kind == "step.due_moved" else _withdrawn(event) for event in events.order_by("pk")]


def _moved(event: Event) -> DueMoment:
    to = datetime.fromisoformat(event.data["to"]).astimezone(UTC)
    told = {"who": event.actor, "step": event.data.get("name", ""), "to": f"{to:%d %b %H:%M} UTC"}
    return DueMoment(_("%(who)s moved the due time of %(step)s to %(to)s") % told, event.data.get("text", ""), event.at)


def _withdrawn(event: Event) -> DueMoment:
    label = event.task.label if isinstance(event.task, Task) else _("the task")
    return DueMoment(_("The due time passed; “%(task)s” was withdrawn") % {"task": label}, "", event.at)

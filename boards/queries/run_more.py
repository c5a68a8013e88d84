"""What a run's page reads beside its visits and tasks: works inside its steps, runs it called, events of its history.

Reads only; each function is one query, however long the run was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _

from boards.models import Branch, Event, FlowRun, Hold, StepChange, Task, Visit
from boards.queries.run_inner import Inside
from boards.queries.run_time import Span, step_spans, task_spans

# Events that the history tells beside step changes and answers: kind -> (icon, trigger).
_TOLD: Final[Mapping[str, str]] = {
    "schedule.fired": "clock",
    "webhook.started": "play",
    "step.event": "gate",
    "step.failed": "stuck",
    "step.skipped": "skip",
    "step.completed_by_hand": "ok",
    "step.retried": "again",
    "step.turn_cancelled": "pause",
    "step.loop_ended": "again",
    "step.iteration_begun": "again",
    "run.notified": "gate",
    "run.reopened": "again",
}
_MOST: Final = 200


@dataclass(frozen=True, slots=True)
class Told:
    """One event in words: `what` is bold, `rest` follows it."""

    icon: str
    what: str
    rest: str
    at: datetime


def inside(run: FlowRun, tasks: Mapping[int, Task], holds: Sequence[Hold], now: datetime) -> Inside:
    """The works inside the run's steps; `holds`: those that are open."""
    branches: dict[int, list[Branch]] = defaultdict(list)
    for branch in Branch.objects.filter(visit__run=run):
        branches[branch.visit_id].append(branch)
    children: dict[int, list[FlowRun]] = defaultdict(list)
    for child in FlowRun.objects.filter(called_by__run=run).select_related("flow").order_by("pk"):
        children[child.called_by_id or 0].append(child)
    return Inside(branches, children, tasks, holds, now)


def spans_inside(
    visits: Sequence[Visit],
    tasks: Sequence[Task],
    attempts: Mapping[int, list[Any]],
    holds: Sequence[Hold],
    found: Inside,
    end: datetime,
) -> dict[str, list[Span]]:
    """Step key, or "step/work", -> where the time went in it, over all visits."""
    spans: dict[str, list[Span]] = defaultdict(list)
    row_of = {row.task_id: row for rows in found.branches.values() for row in rows if row.task_id is not None}
    for visit in visits:
        own = [hold for hold in holds if hold.visit_id == visit.pk]
        spans[visit.step_key] += step_spans((hold for hold in own if hold.branch_id is None), end)
        for row in found.branches.get(visit.pk, ()):
            spans[f"{visit.step_key}/{row.key}"] += step_spans((h for h in own if h.branch_id == row.pk), end)
        for task in (task for task in tasks if task.visit_id == visit.pk):
            asked = [hold for hold in holds if hold.task_id == task.key]
            place = f"{visit.step_key}/{row_of[task.key].key}" if task.key in row_of else visit.step_key
            spans[place] += task_spans(task, attempts.get(task.key, []), asked, end)
        for child in found.children.get(visit.pk, ()):
            spans[visit.step_key].append(Span("work", child.created_at, child.completed_at or end))
        if visit.due_at is not None and visit.task_id is None and not own and not found.branches.get(visit.pk):
            spans[visit.step_key].append(Span("queue", visit.entered_at, visit.left_at or end))  # a wait
    return spans


def told_events(run: FlowRun, names: Mapping[str, str]) -> list[Told]:
    """What happened to the run that is no step change and no answer, newest last; `names` of its steps by key."""
    events = Event.objects.filter(run=run, kind__in=list(_TOLD)).order_by("-pk")[:_MOST]
    return [_told(event, names) for event in reversed(events)]


def signal_words(change: StepChange) -> str:
    """What the agent said when it called its step complete, where that moved the run."""
    return str((change.signal or {}).get("summary", "")) if isinstance(change.signal, dict) else ""


def _told(event: Event, names: Mapping[str, str]) -> Told:
    data = event.data
    step = names.get(str(data.get("step", "")), str(data.get("step", "")))
    text = str(data.get("text", ""))
    who = event.actor or "Orchestra"
    reason = str(data.get("reason", ""))
    words: Mapping[str, tuple[str, str]] = {
        "schedule.fired": (_("A schedule started it"), _due_words(data)),
        "webhook.started": (_("The webhook %(name)s started it") % {"name": data.get("name", "")}, ""),
        "step.event": (_("An event came for %(step)s") % {"step": step}, str(data.get("key", ""))),
        "step.failed": (_("%(step)s failed") % {"step": step}, text),
        "step.skipped": (_("%(who)s skipped %(step)s") % {"who": who, "step": step}, text),
        "step.completed_by_hand": (_("%(who)s completed %(step)s by hand") % {"who": who, "step": step}, ""),
        "step.retried": (_("%(who)s retried %(step)s") % {"who": who, "step": step}, ""),
        "step.turn_cancelled": (_("%(who)s cancelled the turn of %(step)s") % {"who": who, "step": step}, ""),
        "step.loop_ended": (_("The loop %(step)s ended") % {"step": step}, reason),
        "step.iteration_begun": (_("%(step)s goes round again") % {"step": step}, ""),
        "run.notified": (_("Told %(who)s") % {"who": data.get("to") or run_starter()}, text),
        "run.reopened": (_("%(who)s let the run go on") % {"who": who}, ""),
    }
    what, rest = words[event.kind]
    return Told(_TOLD[event.kind], what, rest, event.at)


def _due_words(data: Mapping[str, Any]) -> str:
    """When a schedule was due, by the clock of its zone."""
    try:
        due = datetime.fromisoformat(str(data.get("due", ""))).astimezone(ZoneInfo(str(data.get("zone", "UTC"))))
    except (KeyError, OSError, ValueError):
        return ""
    return _("due %(when)s %(zone)s") % {"when": f"{due:%d %b %H:%M}", "zone": data.get("zone", "UTC")}


def run_starter() -> str:
    return _("whoever started it")

"""The steps of a run as its graph shows them: what is done, works, or waits on whom; pure (spec: 08 "Run page")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from django.utils.translation import gettext as _

from boards.flows.definition import step_from_row
from boards.models import FlowRun, FlowStep, Hold, Task, Visit
from boards.queries.run_inner import InnerView, Inside, together
from boards.states import Phase, RunStatus, Status

PERSON_KINDS: Final = frozenset({"approval", "input"})
ICONS: Final[Mapping[str, str]] = {
    "agent": "agents",
    "task": "cmd",
    "approval": "you",
    "input": "form",
    "wait": "clock",
    "choice": "branch",
    "parallel": "branch",
    "stage": "board",
    "loop": "again",
    "call": "flow",
    "notify": "gate",
    "column": "board",
}

_GLYPHS: Final[Mapping[str, str]] = {
    "done": "ok",
    "working": "working",
    "you": "you",
    "stuck": "stuck",
    "paused": "pause",
    "skipped": "x",
    "passed": "skip",
}


@dataclass(frozen=True, slots=True)
class StepView:
    """One node. `state`: "", done, working, you, stuck, waiting, paused, skipped or passed (moved on by hand, its
    question unanswered or its task undone); `words` say the same.

    `who`: the assignee, "" where nobody works it; `seconds`: how long the run has stood in it, None for never.
    """

    key: str
    name: str
    kind: str
    icon: str
    state: str = ""
    words: str = ""
    who: str = ""
    seconds: float | None = None
    times: int = 0
    is_current: bool = False
    is_last: bool = False
    inner: tuple[InnerView, ...] = ()

    @property
    def is_person(self) -> bool:
        return self.kind in PERSON_KINDS

    @property
    def mark(self) -> str:
        """The classes of its mark; a circle is a person, a square works."""
        look = {"done": "done", "working": "working", "you": "you", "stuck": "stuck"}.get(self.state, "")
        return " ".join(["mark", *(["mark--person"] if self.is_person else []), *([f"mark--{look}"] if look else [])])

    @property
    def glyph(self) -> str:
        """The icon in its mark."""
        return _GLYPHS.get(self.state, self.icon)


def step_views(
    run: FlowRun,
    steps: Sequence[FlowStep],
    visits: Sequence[Visit],
    tasks: Mapping[int, Task],
    open_holds: Sequence[Hold],
    now: datetime,
    *,
    stopping: bool = False,
    default_assignee: str = "",
    passed: Mapping[str, str] = MappingProxyType({}),
    inside: Inside | None = None,
) -> list[StepView]:
    """The nodes in order of position; `tasks` by key; `open_holds` of the run and its tasks; `inside`: see there.

    `passed`: step key -> words, of the steps that the run was moved out of before they were done.
    """
    made = []
    for step in steps:
        stays = [visit for visit in visits if visit.step_key == step.key]
        last = stays[-1] if stays else None
        is_current = last is not None and run.current_visit_id == last.pk
        task = tasks.get(last.task_id or 0) if last else None
        inner = inside.of(step_from_row(step), last, ICONS) if inside is not None else ()
        state, words = _state(run, last, task, open_holds, is_current, stopping, inner)
        if state == "waiting" and last is not None and last.output is None and step.settings.get("event"):
            words = _("Waits for an event") if last.due_at is None else _("Waits for an event, or for its time")
        if state == "done" and step.key in passed:
            state, words = "passed", passed[step.key]
        made.append(
            StepView(
                key=step.key,
                name=step.name,
                kind=step.kind,
                icon="flag" if step is steps[-1] and step.kind == "column" else ICONS.get(step.kind, "board"),
                state=state,
                words=words,
                who=_who(step, task, default_assignee),
                seconds=sum(_stay(visit, run, now) for visit in stays) if stays else None,
                times=len(stays),
                is_current=is_current and run.status in {RunStatus.ACTIVE, RunStatus.FAILED},
                is_last=step is steps[-1],
                inner=inner,
            )
        )
    return made


def run_state(run: FlowRun, steps: Sequence[StepView]) -> tuple[str, str]:
    """The run in one word: (state, what people read)."""
    if run.status == RunStatus.COMPLETED:
        return "done", _("Done")
    if run.status == RunStatus.CANCELLED:
        return "skipped", _("Cancelled")
    if run.status == RunStatus.FAILED:
        return "stuck", _("Failed")
    if run.queued_step:
        name = next((step.name for step in steps if step.key == run.queued_step), run.queued_step)
        return "waiting", _("In line for %(step)s") % {"step": name}
    current = next((step for step in steps if step.is_current), None)
    words = {
        "you": _("On a person"),
        "working": _("Working"),
        "paused": _("Paused"),
        "waiting": _("Waiting"),
        "stopping": _("Stopping…"),
        "stuck": _("A step failed"),
    }
    return (current.state, words.get(current.state, _("Active"))) if current else ("", _("Active"))


def _state(
    run: FlowRun,
    visit: Visit | None,
    task: Task | None,
    holds: Sequence[Hold],
    is_current: bool,
    stopping: bool,
    inner: Sequence[InnerView],
) -> tuple[str, str]:
    if visit is None:
        return "", ""
    if not is_current or run.status in {RunStatus.COMPLETED, RunStatus.CANCELLED}:
        if run.status == RunStatus.CANCELLED and is_current:
            return "skipped", _("cancelled here")
        return "done", ""
    if run.status == RunStatus.FAILED:
        return "stuck", _("Failed")
    if visit.phase == Phase.FAILURE:
        return _handling(inner)
    if stopping:
        return "paused", _("stopping…")
    if inner and visit.phase == Phase.WORKING:
        return together(inner) if any(each.state for each in inner) else ("working", "")
    if any(h.visit_id == visit.pk or (task is not None and h.task_id == task.pk) for h in holds):
        return "you", _("Waits on a person")
    if task is not None and not task.is_ended:
        return _working(task)
    if visit.phase == Phase.PAUSED:
        return "paused", _("Paused")
    if visit.due_at is not None and visit.output is None and task is None:
        return "waiting", _("Waits for its time")
    if visit.phase == Phase.WORKING:
        return "working", ""
    return "waiting", _("Waits for a person to move it on")


def _handling(inner: Sequence[InnerView]) -> tuple[str, str]:
    """The step failed and its failure steps are at work."""
    state, words = together(inner)
    shown = state if state in {"you", "working"} else "stuck"
    return shown, _("Failed; %(what)s") % {"what": words} if words else _("Failed")


def _working(task: Task) -> tuple[str, str]:
    if task.status == Status.NEEDS_CHECK:
        return "you", _("Needs check")
    if task.status == Status.IN_PROGRESS:
        return "working", _("Working") + (f", {task.status_note[:80]}" if task.status_note else "")
    return "waiting", str(Status(task.status).label)


def _who(step: FlowStep, task: Task | None, default: str) -> str:
    if task is not None:
        return task.assignee
    named = str(step.settings.get("assignee") or "") if isinstance(step.settings, dict) else ""
    return named or (default if step.kind in {"agent", "task"} else "")


def _stay(visit: Visit, run: FlowRun, now: datetime) -> float:
    return ((visit.left_at or run.completed_at or now) - visit.entered_at).total_seconds()

"""Follows one run for the shell: what has changed since the last look, as lines. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from django.db.models.functions import Now

from boards.flows import FlowDefinition, load
from boards.models import FlowRun, Hold, Process, Task, TranscriptItem, Visit
from boards.states import HoldState, Phase, RunStatus, Status

ENDED_WELL: Final = 0
ENDED_BADLY: Final = 1
WAITS: Final = 3
DEAD_AFTER: Final = timedelta(seconds=30)
_SHOWN: Final = (TranscriptItem.Kind.OUTPUT, TranscriptItem.Kind.MESSAGE, TranscriptItem.Kind.ERROR)


@dataclass
class Progress:
    """One run as the shell has seen it so far. `address`: makes the run page's address."""

    run: FlowRun
    address: Callable[[FlowRun], str]
    _said: set[str] = field(default_factory=set)
    _line: int = 0

    def look(self) -> tuple[list[str], int | None]:
        """New lines since the last look, and the exit code once there is nothing more to follow."""
        self.run.refresh_from_db()
        flow = load(self.run.version)
        visits = list(self.run.visits.select_related("task").order_by("pk"))
        lines = [line for visit in visits for line in self._of_visit(flow, visit)]
        return lines, self._verdict(flow, visits, lines)

    def _of_visit(self, flow: FlowDefinition, visit: Visit) -> Iterator[str]:
        step = flow.step(visit.step_key)
        name = step.name if step else visit.step_key
        yield from self._once(f"entered {visit.pk}", f"{name}: entered")
        if visit.task is None:
            return
        yield from self._of_task(name, visit.task)

    def _of_task(self, name: str, task: Task) -> Iterator[str]:
        if task.status == Status.IN_PROGRESS:
            yield from self._once(f"working {task.pk} {task.attempts}", f"{name}: {task.assignee} works")
        if task.status == Status.PENDING:
            yield from self._nobody_serves(name, task)
        items = TranscriptItem.objects.filter(task=task, kind__in=_SHOWN, pk__gt=self._line).order_by("pk")
        for item in items[:500]:
            self._line = item.pk
            yield f"  {item.text}"
        if task.status_note:
            yield from self._once(f"note {task.pk} {task.status_note}", f"  {task.status_note}")
        if task.is_ended:
            words = f"{name}: {Status(task.status).label.lower()}"
            yield from self._once(f"ended {task.pk} {task.attempts}", words)

    def _nobody_serves(self, name: str, task: Task) -> Iterator[str]:
        alive = Process.objects.filter(kind=Process.Kind.DRAIN, stopped_at__isnull=True, beat_at__gt=Now() - DEAD_AFTER)
        if not alive.exists():
            words = f"{name}: no drain is running, so nobody takes this. Start one with: manage.py drain"
            yield from self._once(f"nobody {task.pk}", words)

    def _once(self, mark: str, line: str) -> Iterator[str]:
        if mark not in self._said:
            self._said.add(mark)
            yield line

    def _verdict(self, flow: FlowDefinition, visits: list[Visit], lines: list[str]) -> int | None:
        run = self.run
        match run.status:
            case RunStatus.COMPLETED:
                lines.append(f"{run.name} is completed: {self.address(run)}")
                lines.extend(f"Published: {path}" for path in _files(visits))
                return ENDED_WELL
            case RunStatus.FAILED:
                lines.append(f"{run.name} failed: {run.error}")
                lines.append(f"Start it again with other inputs, or run the step again: {self.address(run)}")
                return ENDED_BADLY
            case RunStatus.CANCELLED:
                lines.append(f"{run.name} was cancelled: {run.error}")
                return ENDED_BADLY
        return self._waiting(flow, lines)

    def _waiting(self, flow: FlowDefinition, lines: list[str]) -> int | None:
        """Whether a person has to act before the run goes on, and what they are asked."""
        visit = self.run.current_visit
        if visit is None:
            return None
        step = flow.step(visit.step_key)
        name = step.name if step else visit.step_key
        asked = Hold.objects.filter(state=HoldState.OPEN, visit=visit).first()
        if asked is None and visit.task_id is not None:
            asked = Hold.objects.filter(state=HoldState.OPEN, task=visit.task_id).first()
        if asked is not None:
            lines.append(f"{name}: waits on a person. {asked.prompt.splitlines()[0]}")
            lines.append(f"Answer it in Needs you or in the run: {self.address(self.run)}")
            return WAITS
        if visit.task is not None and visit.task.status == Status.NEEDS_CHECK:
            lines.append(f"{name}: handed in, and waits for somebody to check it: {self.address(self.run)}")
            return WAITS
        if visit.phase in (Phase.WAITING, Phase.PAUSED):
            lines.append(f"{name}: waits until a person moves the run: {self.address(self.run)}")
            return WAITS
        return None


def _files(visits: list[Visit]) -> list[str]:
    return [str(v.output["file"]) for v in visits if isinstance(v.output, dict) and v.output.get("file")]

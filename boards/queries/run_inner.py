"""What stands inside a step of a run: branches, stage tasks, failure steps, a called run; and how they stand together.

Pure: rows in, views out (spec: 05 sections 2.10-2.11, 08 "Run page").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _

from boards.flows.definition import StepDefinition
from boards.models import Branch, FlowRun, Hold, Task, Visit
from boards.states import RunStatus, Status

# A card with several tasks shows the first of these (spec: 05 section 2.10).
_FIRST: Final = ("you", "stuck", "working", "waiting")


@dataclass(frozen=True, slots=True)
class InnerView:
    """One work inside a step, in the words of `StepView`. `group`: "" or what it is one of; `run`: a called run.

    `href`: where its task or run is shown, "" where it has none yet.
    """

    key: str
    name: str
    icon: str
    state: str = ""
    words: str = ""
    who: str = ""
    group: str = ""
    is_person: bool = False
    optional: bool = False
    seconds: float | None = None
    task_id: str = ""
    run: FlowRun | None = None


@dataclass(frozen=True, slots=True)
class Inside:
    """The rows that a run's steps have inside, fetched once. `tasks` by key, `holds` those that are open."""

    branches: Mapping[int, Sequence[Branch]]
    children: Mapping[int, Sequence[FlowRun]]
    tasks: Mapping[int, Task]
    holds: Sequence[Hold]
    now: datetime

    def of(self, step: StepDefinition, visit: Visit | None, icons: Mapping[str, str]) -> tuple[InnerView, ...]:
        """What to show inside one step at its last stay; what it will have inside, where the run was not there yet."""
        if visit is None:
            return tuple(_planned(nested, icons) for nested in step.branches) + tuple(
                InnerView(
                    told.key, told.title or told.key, icons["task"], who=told.assignee, optional=not told.required
                )
                for told in step.tasks
            )
        rows = self._latest(self.branches.get(visit.pk, ()))
        made = [self._view(step, row, icons) for row in rows]
        return tuple(made) + tuple(self._child(child, icons) for child in self.children.get(visit.pk, ()))

    def _latest(self, rows: Sequence[Branch]) -> list[Branch]:
        """Of failure steps and of a loop's tasks only those of the last round; the page has the others in its data."""
        last: dict[str, int] = {}
        for row in rows:
            last[row.role] = max(last.get(row.role, 0), row.round)
        return [row for row in rows if row.round == last[row.role]]

    def _view(self, step: StepDefinition, row: Branch, icons: Mapping[str, str]) -> InnerView:
        nested = _nested(step, row)
        task = self.tasks.get(row.task_id or 0)
        asked = any(h.branch_id == row.pk or (task is not None and h.task_id == task.pk) for h in self.holds)
        state, words = _state(row, task, asked)
        kind = nested.kind if nested is not None else "task"
        return InnerView(
            key=row.key,
            name=nested.name if nested is not None else _task_name(step, row, task),
            icon=icons.get(kind, icons["task"]),
            state=state,
            words=words,
            who=task.assignee if task is not None else "",
            group=_group(step, row),
            is_person=kind in {"approval", "input"},
            optional=row.role == Branch.Role.STAGE and not row.required,
            seconds=((row.ended_at or self.now) - row.started_at).total_seconds() if row.started_at else None,
            task_id=task.public_id if task is not None else "",
        )

    def _child(self, child: FlowRun, icons: Mapping[str, str]) -> InnerView:
        words = {
            RunStatus.COMPLETED: ("done", _("Done")),
            RunStatus.FAILED: ("stuck", _("Failed")),
            RunStatus.CANCELLED: ("skipped", _("Cancelled")),
        }
        state, said = words.get(RunStatus(child.status), ("working", _("Runs")))
        took = ((child.completed_at or self.now) - child.created_at).total_seconds()
        return InnerView(f"run-{child.pk}", child.name, icons["call"], state, said, seconds=took, run=child)


def together(inner: Iterable[InnerView]) -> tuple[str, str]:
    """(state, words) of a step by what is at work inside it; ("", "") where nothing is."""
    open_ones = [each for each in inner if each.state in _FIRST and each.state != "stuck"]
    for state in _FIRST:
        found = [each for each in open_ones if each.state == state]
        if found:
            done = sum(each.state == "done" for each in inner)
            return state, f"{found[0].name}: {found[0].words}" if len(open_ones) == 1 and not done else _counted(inner)
    return "", ""


def _counted(inner: Iterable[InnerView]) -> str:
    told = list(inner)
    done = sum(each.state in {"done", "stuck", "skipped"} for each in told)
    return _("%(done)d of %(all)d ended") % {"done": done, "all": len(told)}


def _planned(nested: StepDefinition, icons: Mapping[str, str]) -> InnerView:
    icon = icons.get(nested.kind, icons["task"])
    person = nested.kind in {"approval", "input"}
    return InnerView(nested.key, nested.name, icon, who=nested.assignee, is_person=person)


def _nested(step: StepDefinition, row: Branch) -> StepDefinition | None:
    nested = step.branches
    if row.role == Branch.Role.FAILURE:
        nested = step.on_failure.steps if step.on_failure is not None else ()
    return next((each for each in nested if each.key == row.key), None)


def _task_name(step: StepDefinition, row: Branch, task: Task | None) -> str:
    told = next((each for each in step.tasks if each.key == row.key and each.title), None)
    if told is not None and "{" not in told.title:
        return told.title
    return task.label if task is not None else row.key


def _group(step: StepDefinition, row: Branch) -> str:
    if row.role == Branch.Role.FAILURE:
        return _("after the failure")
    if step.kind == "loop":
        return _("iteration %(n)d of %(all)d") % {"n": row.round, "all": step.max_iterations or row.round}
    return ""


def _state(row: Branch, task: Task | None, asked: bool) -> tuple[str, str]:
    ended = {
        "completed": ("done", _("Done")),
        "failed": ("stuck", _("Did not complete")),
        "cancelled": ("skipped", _("Skipped")),
        "withdrawn": ("skipped", _("Skipped: the due time passed")),
    }
    if row.outcome:
        return ended[row.outcome]
    if asked:
        return "you", _("Waits on a person")
    if task is None:
        return "waiting", ""
    if task.status == Status.NEEDS_CHECK:
        return "you", _("Needs check")
    if task.status == Status.IN_PROGRESS:
        return "working", _("Working") + (f", {task.status_note[:80]}" if task.status_note else "")
    if task.status == Status.PENDING and task.unmet_deps:
        return "waiting", _("Waits for others")
    return ("stuck" if task.status == Status.ERRORED else "waiting"), str(Status(task.status).label)

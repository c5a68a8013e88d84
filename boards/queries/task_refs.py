"""What the task page reads beside the task: links to other tasks, spend, whether a drain would start it.

Reads only; a neighbour is never more than a label and a status, since its output may be a megabyte.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Left, Now

from boards.models import Board, Process, RosterEntry, Task
from boards.states import LIVE, Status

MAX_REFS: Final = 60
_SIDE: Final = ("side", "key", "public_id", "title", "head", "status")
SILENT_AFTER: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class TaskRef:
    """Another task as a link: never more of it than its label and status."""

    public_id: str
    label: str
    status: str
    board: str = ""  # another board than that of the page

    @property
    def ended_otherwise(self) -> bool:
        return self.status in {Status.ERRORED, Status.CANCELLED}


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The tasks beside one, oldest first and at most MAX_REFS of each; `cut` where there are more."""

    waits_for: list[TaskRef] = field(default_factory=list)
    waited_by: list[TaskRef] = field(default_factory=list)
    filed: list[TaskRef] = field(default_factory=list)
    chain: list[TaskRef] = field(default_factory=list)  # the root and the follow-ups, without the task itself

    @property
    def cut(self) -> bool:
        return max(map(len, (self.waits_for, self.waited_by, self.filed, self.chain))) >= MAX_REFS


@dataclass(frozen=True, slots=True)
class Spend:
    """What a vendor reported; None where nothing was reported, which is never 0."""

    tokens: int | None
    cost_usd: float | None

    @property
    def tokens_words(self) -> str:
        return "" if self.tokens is None else f"{self.tokens:,}"


@dataclass(frozen=True, slots=True)
class StartState:
    """Whether a running drain serves the task's assignee, or its worker takes it by itself (`outside`), and whether
    that one has a free slot.
    """

    served: bool = True
    outside: bool = False
    free: bool = True
    busy_with: str = ""


def start_state(task: Task, entry: RosterEntry | None) -> StartState:
    """What a Ready task waits for besides tasks and people; read only where the page says it."""
    name = entry.name if entry else task.assignee
    drains = Process.objects.filter(kind=Process.Kind.DRAIN, stopped_at=None, beat_at__gt=Now() - SILENT_AFTER)
    outside = entry is not None and entry.kind == RosterEntry.Kind.PULL
    served = outside or any(_serves(drain, task.board_id, name) for drain in drains)
    most = entry.max_running if entry else None
    if not served or most is None:
        return StartState(served, outside)
    live = Task.objects.filter(board=task.board_id, assignee=name, status=Status.IN_PROGRESS, kept_open_by="")
    running = refs(live.filter(lease_until__gt=Now()))
    seen = [ref for ref in running if task.board.partition_by == Board.PartitionBy.NONE]
    return StartState(True, outside, len(running) < most, f"“{seen[0].label}”" if seen else "")


def _serves(drain: Process, board_id: int, name: str) -> bool:
    return (not drain.boards or board_id in drain.boards) and f"{board_id}:{name}" in drain.assignees


def refs(tasks: QuerySet[Task]) -> list[TaskRef]:
    """The tasks as links, oldest first; at most MAX_REFS."""
    fields = tasks.order_by("pk").values_list("public_id", "title", Left("goal", 300), "status")
    return [TaskRef(key, label_of(title, goal) or key, status) for key, title, goal, status in fields[:MAX_REFS]]


def neighbours(task: Task) -> Neighbours:
    """What it waits for, what waits for it, what it filed, and its chain of follow-ups; one query."""
    found = Neighbours()
    root = task.follow_up_of_id or task.pk
    sides = {
        "up": Task.objects.filter(dependent_edges__dependent=task.pk),
        "down": Task.objects.filter(dep_edges__dependency=task.pk),
        "filed": Task.objects.filter(filed_by_task=task.pk),
        "chain": Task.objects.filter(Q(pk=root) | Q(follow_up_of=root)).exclude(pk=task.pk),
    }
    lists = {"up": found.waits_for, "down": found.waited_by, "filed": found.filed, "chain": found.chain}
    first, *others = (
        rows.annotate(side=Value(side), head=Left("goal", 300)).order_by("pk").values_list(*_SIDE)[:MAX_REFS]
        for side, rows in sides.items()
    )
    for side, _key, public_id, title, goal, status in first.union(*others, all=True).order_by("key"):
        lists[side].append(TaskRef(public_id, label_of(title, goal) or public_id, status))
    return found


def label_of(title: str, goal: str) -> str:
    return (title or next((line.strip() for line in goal.splitlines() if line.strip()), ""))[:200]


def spend_of(entries: Iterable[Any]) -> Spend | None:
    """The sum of what was reported: tokens stay None until something reports one (spec: 03 section 5)."""
    tokens: int | None = None
    cost: float | None = None
    for entry in entries:
        for part in ("settled", "live"):
            figures = entry.get(part) if isinstance(entry, dict) else None
            if not isinstance(figures, dict):
                continue
            counts = [figures[name] for name in ("input_tokens", "output_tokens") if isinstance(figures.get(name), int)]
            tokens = (tokens or 0) + sum(counts) if counts else tokens
            if isinstance(figures.get("cost_usd"), (int, float)):
                cost = (cost or 0.0) + figures["cost_usd"]
    return Spend(tokens, cost) if tokens is not None or cost is not None else None


def open_refs(board: Board, text: str, partition: str = "") -> list[TaskRef]:
    """Open tasks of the board whose id, title or goal holds the text, newest first: what a task may wait for."""
    words = text.split("—")[-1].strip()
    rows = Task.objects.filter(board=board, partition=partition, status__in=sorted(LIVE))
    if words:
        matches = Q(title__icontains=words) | Q(goal__icontains=words) | Q(public_id__istartswith=words)
        rows = rows.filter(matches)
    fields = rows.order_by("-pk").values_list("public_id", "title", Left("goal", 300), "status")
    return [TaskRef(key, label_of(title, goal) or key, status) for key, title, goal, status in fields[:50]]

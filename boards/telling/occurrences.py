"""What stands in a member's list now, each with the name of its occurrence and the moment it came up (spec: 04, 4).

Reads only, through the list's own conditions and words, so what is told is what *Needs you* shows. A row that comes up
anew (asked again, handed in again) is an occurrence of its own; one that is merely edited is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Max, Q

from boards.models import Debt, Event, Hold, Member, Task
from boards.queries import waiting_rows as source
from boards.queries.read_words import told_row
from boards.queries.waiting_row import Row
from boards.queries.waiting_words import debt_row, hold_row, run_row, task_row
from boards.states import Status

# What brought a task's row up: its occurrence is the last of these.
_CAUSES: Final = {
    "check": ("task.handed_in",),
    "stuck": ("task.errored",),
    "assigned": ("task.filed", "task.assignee_changed", "task.released", "task.retried", "task.retry_requested"),
}
DELIVER: Final = "deliver"
ALL: Final = Q()
NOTHING: Final = Q(pk__in=())


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One thing that waits on one member. `key` is the same for everybody and in every process."""

    key: str
    at: datetime
    row: Row
    hold_id: int | None = None
    task_key: int | None = None
    run_id: int | None = None
    debt_id: int | None = None
    event_id: int | None = None


@dataclass(frozen=True, slots=True)
class Near:
    """Which rows to look at; what it does not name is not looked at."""

    holds: Q = NOTHING
    tasks: Q = NOTHING
    runs: Q = NOTHING
    debts: Q = NOTHING
    told: Q = NOTHING

    @staticmethod
    def of(
        holds: Iterable[int], tasks: Iterable[int], runs: Iterable[int], debts: Iterable[int], told: Iterable[int]
    ) -> Near:
        wanted = (list(ids) for ids in (holds, tasks, runs, debts, told))
        return Near(*(Q(pk__in=ids) if ids else NOTHING for ids in wanted))

    def __bool__(self) -> bool:
        return any(part != NOTHING for part in (self.holds, self.tasks, self.runs, self.debts, self.told))


EVERYTHING: Final = Near(ALL, ALL, ALL, ALL, ALL)


def standing(member: Member, near: Near = EVERYTHING) -> list[Occurrence]:
    """What waits on the member and is named by `near`, oldest first; who may only read is told by flows alone."""
    found = [*_told(member, near.told)]
    if source.may_act(member):
        found += [*_holds(member, near.holds), *_tasks(member, near.tasks), *_runs(member, near.runs)]
        found += _debts(member, near.debts)
    return sorted(found, key=lambda one: (one.at, one.key))


def _told(member: Member, only: Q) -> Iterator[Occurrence]:
    if only == NOTHING:
        return
    for it in source.told_rows(member, only):
        yield Occurrence(f"event:{it['pk']}", it["at"], told_row(it), run_id=it["run_id"], event_id=it["pk"])


def _holds(member: Member, only: Q) -> Iterator[Occurrence]:
    if only == NOTHING:
        return
    facts = {it["pk"]: it for it in source.hold_rows(member, only) if it["mine"]}
    subjects = Hold.objects.filter(pk__in=facts).values_list("pk", "task_id", "visit__run_id")
    for pk, task_key, run_id in subjects if facts else ():
        at = facts[pk]["asked_at"]
        key = f"hold:{pk}:{at:%Y%m%dT%H%M%S.%f}"  # a retry asks the same row again, and that is another occurrence
        yield Occurrence(key, at, hold_row(facts[pk], member), hold_id=pk, task_key=task_key, run_id=run_id)


def _tasks(member: Member, only: Q) -> Iterator[Occurrence]:
    if only == NOTHING:
        return
    facts = [it for it in source.task_rows(member, only) if it["mine"] and _is_news(it)]
    causes, ready = _causes(facts), _ready_since([it["pk"] for it in facts if it["arm"] == "assigned"])
    for it in facts:
        row = task_row(it, member)
        if it["arm"] == "lost":
            yield Occurrence(f"lost:{it['pk']}:{it['attempts']}", it["lease_until"], row, task_key=it["pk"])
        elif cause := causes.get((it["arm"], it["pk"])):
            at = max([cause[1], *ready.get(it["pk"], ())])
            yield Occurrence(f"event:{cause[0]}", at, row, task_key=it["pk"])


def _is_news(it: Any) -> bool:
    """What somebody has taken in hand is no news to them."""
    return not (it["arm"] == "assigned" and it["status"] == Status.IN_PROGRESS)


def _causes(facts: list[Any]) -> dict[tuple[str, int], tuple[int, datetime]]:
    """(arm, task) -> the id and time of the last event that brought the row up; at most one query for each arm."""
    found: dict[tuple[str, int], tuple[int, datetime]] = {}
    for arm, kinds in _CAUSES.items():
        keys = [it["pk"] for it in facts if it["arm"] == arm]
        events = Event.objects.filter(task__in=keys, kind__in=kinds).order_by("task", "-id").distinct("task")
        for task, pk, at in events.values_list("task_id", "pk", "at") if keys else ():
            found[arm, task] = (pk, at)
    return found


def _ready_since(keys: list[int]) -> dict[int, list[datetime]]:
    """What a task that can be started had to wait for: its own time, its dependencies, its questions. One query."""
    if not keys:
        return {}
    rows = (
        Task.objects.filter(pk__in=keys)
        .annotate(last_dep=Max("dep_edges__dependency__completed_at"), last_hold=Max("holds__answered_at"))
        .values_list("pk", "not_before", "last_dep", "last_hold")
    )
    return {pk: [moment for moment in moments if moment] for pk, *moments in rows}


def _runs(member: Member, only: Q) -> Iterator[Occurrence]:
    if only == NOTHING:
        return
    for it in source.run_rows(member, only):
        if it["mine"]:
            row = run_row(it, member)
            place = it["current_visit__entered_at"] or it["created_at"]
            key = f"run:{it['pk']}:{it['status']}:{it['current_visit__phase'] or ''}:{place:%Y%m%dT%H%M%S.%f}"
            yield Occurrence(key, row.since, row, run_id=it["pk"])


def _debts(member: Member, only: Q) -> Iterator[Occurrence]:
    """Debts that failed for good, but for those that could not tell somebody: one would tell of the other for ever."""
    if only == NOTHING:
        return
    dead = ~Q(kind=DELIVER) & Q(state="undeliverable")
    facts = {it["pk"]: it for it in source.debt_rows(member, only & dead)}
    subjects = Debt.objects.filter(pk__in=facts).values_list("pk", "task_id", "run_id", "due_at")
    for pk, task_key, run_id, failed_at in subjects if facts else ():
        key = f"debt:{pk}:{facts[pk]['created_at']:%Y%m%dT%H%M%S.%f}"  # paid again it counts its age anew
        yield Occurrence(key, failed_at, debt_row(facts[pk]), task_key=task_key, run_id=run_id, debt_id=pk)

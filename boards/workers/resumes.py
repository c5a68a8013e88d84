"""Takes up the runs that were cancelled while they waited on a person, once more, so that they are told.

Such a run holds no claim: it is not renewed, its progress is refused, its return is not recorded (spec: 04 section
2.6). The debt `resume` is taken for a while and taken again by another drain where this one dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Final
from uuid import UUID

from django.db.models.functions import Now

from boards import tasks
from boards.debts import paying
from boards.models import Attempt, Debt, RosterEntry, Task
from boards.states import Status
from boards.tasks import Claimed
from boards.workers.runner import Run

TAKEN_FOR: Final = timedelta(seconds=30)  # taken anew at every look, every few seconds

EntryFor = Callable[[Task], RosterEntry | None]


@dataclass
class Resumes:
    """The cancelled runs of one drain, by the debt that each of them pays with its end."""

    payer: ClassVar[str] = "drain"

    drain_id: UUID
    taken: dict[int, Run] = field(default_factory=dict)

    def look(self, running: Iterable[Run]) -> bool:
        """Keep what still runs, pay what has ended; what a shutdown cut short is left to the next drain."""
        live = list(running)
        ended = {debt_id: run for debt_id, run in self.taken.items() if run not in live}
        if self.taken:
            Debt.objects.filter(pk__in=self.taken.keys() - ended.keys()).update(due_at=Now() + TAKEN_FOR)
        for debt_id, run in ended.items():
            if run.why == "shutdown":
                Debt.objects.filter(pk=debt_id).update(due_at=Now())
            else:
                paying.pay(debt_id)
            del self.taken[debt_id]
        return bool(ended)

    def take(self, boards: Iterable[int], entry_for: EntryFor, room: int, running: Iterable[Run]) -> list[Run]:
        """Up to `room` runs that this drain can tell, each taken by one drain only; none whose turn still ends here."""
        busy = {run.ticket.task_key for run in running}
        runs: list[Run] = []
        for debt in self._due(boards):
            if len(runs) == room:
                break
            if debt.task_id in busy:
                continue
            assert debt.task is not None  # selected by its board
            entry = entry_for(debt.task)
            if entry is None or not self._won(debt):
                continue
            run = _run_of(debt, debt.task, entry)
            if run is None:  # it was retried meanwhile
                paying.pay(debt.pk)
            else:
                self.taken[debt.pk] = run
                runs.append(run)
        return runs

    def _due(self, boards: Iterable[int]) -> list[Debt]:
        due = Debt.objects.filter(payer=self.payer, kind="resume", state=Debt.State.OWED, after=None, due_at__lte=Now())
        ours = due.filter(task__board__in=list(boards)).exclude(pk__in=self.taken)
        return list(ours.select_related("task__board").order_by("due_at", "pk")[: paying.PAGE])

    def _won(self, debt: Debt) -> bool:
        """The one conditional write by which one of several drains takes it."""
        mine = Debt.objects.filter(pk=debt.pk, state=Debt.State.OWED, due_at__lte=Now())
        return bool(mine.update(due_at=Now() + TAKEN_FOR, data=debt.data | {"taken_by": str(self.drain_id)}))


def _run_of(debt: Debt, task: Task, entry: RosterEntry) -> Run | None:
    same = task.attempts == debt.data["attempt"] and task.grant_no == debt.data["grant_no"]
    if task.status != Status.CANCELLED or task.withdrawn or not same:
        return None
    attempt = Attempt.objects.filter(task=task.pk, number=task.attempts).first()
    if attempt is None:
        return None
    return Run(Claimed(task, tasks.mint(task, attempt.pk), resumed=True), entry, cancelled=True)

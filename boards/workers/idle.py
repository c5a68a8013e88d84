"""The idle question: whether a pass over a board goes on, and with what reason it ends (spec: 03 section 3).

The verdict is pure; the counts are one query per board. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from boards.models import Board, Debt, RosterEntry, Task
from boards.states import TERMINAL, Status
from boards.tasks.decisions import FILED
from boards.tasks.filed_work import KIND


class Verdict(StrEnum):
    GO_ON = "go on"
    DRAINED = "drained"
    BLOCKED = "blocked"


class Reason(StrEnum):
    """How a pass ended, the strongest last."""

    ALL_COMPLETED = "all-completed"
    BLOCKED_BY_FAILURES = "blocked-by-failures"
    MAX_ITERATIONS = "max-iterations"
    RETRY_BUDGET_EXHAUSTED = "retry-budget-exhausted"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a board holds. `moving`: claimable, backing off or being worked; `waiting`: neither, and not
    ended.
    """

    moving: int = 0
    waiting: int = 0
    denied: int = 0
    statuses: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.statuses.values())


def verdict(on_idle: str, standing: Standing) -> Verdict:
    """The table of the spec: what `on_idle` makes of a board that stands so."""
    if standing.moving or on_idle == Board.OnIdle.WAIT:
        return Verdict.GO_ON
    if not standing.waiting:
        return Verdict.DRAINED
    return Verdict.BLOCKED if on_idle == Board.OnIdle.COMPLETE_OR_BLOCKED else Verdict.GO_ON


def reason(verdicts: Iterable[Verdict], standings: Iterable[Standing], *, spent: bool) -> Reason:
    """Why the pass is over. `spent`: a worker had as many claims as one pass allows."""
    if any(standing.denied for standing in standings):
        return Reason.RETRY_BUDGET_EXHAUSTED
    if spent:
        return Reason.MAX_ITERATIONS
    return Reason.BLOCKED_BY_FAILURES if Verdict.BLOCKED in set(verdicts) else Reason.ALL_COMPLETED


def ask(
    boards: Sequence[Board], *, spent: bool, unserved: Mapping[int, Collection[str]] | None = None
) -> tuple[Reason, str] | None:
    """The idle question of all these boards: why the pass is over, and the counts in words; None to go on.

    `unserved`: by board, the names on its roster that no living drain has a worker for.
    """
    standings = [standing(board, (unserved or {}).get(board.pk, ())) for board in boards]
    verdicts = [verdict(board.on_idle, one) for board, one in zip(boards, standings, strict=True)]
    if Verdict.GO_ON in verdicts and not spent:
        return None
    return reason(verdicts, standings, spent=spent), words(standings)


def standing(board: Board, unserved: Collection[str] = ()) -> Standing:
    """Count the tasks of a board as the idle question sees them: a person's ready task waits on people, and that of
    a name which nobody serves on whoever brings its worker. One that waits for what it filed is being worked, unless
    all of that waits itself.
    """
    people = RosterEntry.objects.filter(board=board, kind=RosterEntry.Kind.PERSON).values("name")
    # What waits for another of its chain moves when that one does: it is counted there.
    of_chain = Task.objects.filter(
        status=Status.IN_PROGRESS, follow_up_of=Coalesce(OuterRef("follow_up_of"), OuterRef("pk"))
    )
    chain_busy = Q(Exists(of_chain)) | Q(follow_up_of__status=Status.IN_PROGRESS)
    has_chain = Q(follow_up_of__isnull=False) | Q(attempts__gt=0)
    served = ~Q(assignee__in=people) & ~Q(assignee__in=list(unserved))
    ready = Q(status=Status.PENDING, unmet_deps=0, open_holds=0) & served & ~(has_chain & chain_busy)
    worked = Q(status=Status.IN_PROGRESS) & (Q(lease_until__isnull=False) | Q(resume_ready_at__isnull=False))
    worked |= Q(kept_open_by=FILED) & ~Q(Exists(_filed_here()))
    open_rows = ~Q(status__in=sorted(TERMINAL))
    found = Task.objects.filter(board=board)
    counts = found.aggregate(
        moving=Count("pk", filter=ready | worked),
        open=Count("pk", filter=open_rows),
        denied=Count("pk", filter=Q(retry_ledger__denied_by_budget=True)),
    )
    statuses = dict(found.order_by().values_list("status").annotate(n=Count("pk")))
    return Standing(counts["moving"], counts["open"] - counts["moving"], counts["denied"], statuses)


def _filed_here() -> QuerySet[Task]:
    """What a task filed on its own board and is open: it speaks for whoever waits for it. Where nothing does, what was
    filed is worked on another board, or the look that ends the task is on its way.
    """
    filed = Task.objects.filter(filed_by_task=OuterRef("pk"), board=OuterRef("board"))
    looked_at = Debt.objects.filter(kind=KIND, task=OuterRef("filed_by_task"), state=Debt.State.OWED)
    elsewhere = Task.objects.filter(filed_by_task=OuterRef("filed_by_task")).exclude(board=OuterRef("board"))
    open_rows = ~Q(status__in=sorted(TERMINAL))
    return filed.filter(open_rows).exclude(Exists(looked_at)).exclude(Exists(elsewhere.filter(open_rows)))


LABELS: Final = {status.value: status.label for status in Status}


def words(standings: Iterable[Standing]) -> str:
    """The counts, as people read them: "7 tasks: 5 Done, 2 Stuck"."""
    totals: dict[str, int] = {}
    for one in standings:
        for status, count in one.statuses.items():
            totals[status] = totals.get(status, 0) + count
    parts = [f"{totals[value]} {label}" for value, label in LABELS.items() if totals.get(value)]
    number = sum(totals.values())
    return f"{number} {'task' if number == 1 else 'tasks'}" + (f": {', '.join(parts)}" if parts else "")

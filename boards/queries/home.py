"""What the home page and the list of boards show (spec: 08 section 2). Reads only; a fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, OuterRef, Q, QuerySet
from django.db.models.functions import Left, Now, TruncDate

from boards.models import Board, Flow, Member, Space, Task
from boards.queries import clock
from boards.queries.cards import label
from boards.queries.partitions import own_rows
from boards.states import TERMINAL, Status

DAYS: Final = 14
RECENT: Final = 8
RUNNING: Final = 8


@dataclass(frozen=True, slots=True)
class Day:
    """One bar of a sparkline: where it stands and how high it is, in per cent of the drawing."""

    day: date
    done: int
    x: str
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class BoardCard:
    board: Board
    counts: dict[str, int]
    days: list[Day]

    @property
    def done_lately(self) -> int:
        return sum(day.done for day in self.days)

    @property
    def shown(self) -> list[tuple[str, int]]:
        """What a board's card tells: the statuses in the order of the lanes, those that need no look left out."""
        wanted = (Status.PENDING, Status.IN_PROGRESS, Status.NEEDS_CHECK, Status.ERRORED, Status.COMPLETED)
        return [(status, self.counts[status]) for status in wanted]


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task as a line of a list."""

    board: Board
    task: Task
    title: str


def board_cards(member: Member) -> list[BoardCard]:
    """Every board of the member's space with what stands on it and what was done in 14 days. Three queries.

    Of a partitioned board the member's own rows are counted, and no others.
    """
    boards = list(Board.objects.filter(space=member.space_id).order_by("name", "pk"))
    counts: dict[int, dict[str, int]] = {board.pk: dict.fromkeys(Status.values, 0) for board in boards}
    mine = own_rows(member)
    rows = Task.objects.filter(mine, board__in=boards).order_by().values_list("board_id", "status")
    for board_id, status, n in rows.annotate(n=Count("*")):
        counts[board_id][status] = n
    done = _done_by_day(boards, mine)
    return [BoardCard(board, counts[board.pk], _days(done.get(board.pk, {}))) for board in boards]


def running_now(member: Member) -> list[TaskLine]:
    """Tasks that are being worked, the newest first. One query."""
    of_space = Task.objects.filter(own_rows(member), board__space=member.space_id)
    lost = Q(lease_until__lte=Now())  # says Working, and nobody works on it until it is claimed again
    tasks = of_space.filter(status=Status.IN_PROGRESS).exclude(lost).order_by("-started_at", "-key")
    return _lines(tasks[:RUNNING])


def recent_endings(member: Member) -> list[TaskLine]:
    """What ended last, in any way. Two queries, each by the lane index however long the history is."""
    tasks = Task.objects.filter(own_rows(member), board=OuterRef("pk")).order_by("-updated_at", "-key").values("pk")
    lanes = {f"last_{status}": ArraySubquery(tasks.filter(status=status)[:RECENT]) for status in sorted(TERMINAL)}
    rows = Board.objects.filter(space=member.space_id).annotate(**lanes).values_list(*lanes)
    keys = [key for row in rows for lane in row for key in lane]
    return _lines(Task.objects.filter(pk__in=keys).order_by("-completed_at", "-key")[:RECENT])


def startable_flows(space: Space) -> list[Flow]:
    """Flows of the space with the count of their active runs. One query."""
    active = Count("runs", filter=Q(runs__status="active", runs__archived_at=None))
    return list(Flow.objects.filter(space=space).annotate(active=active).order_by("name")[:6])


def _lines(tasks: QuerySet[Task]) -> list[TaskLine]:
    few = tasks.select_related("board").annotate(goal_head=Left("goal", 300))
    rows = few.only(
        "key", "public_id", "title", "status", "assignee", "status_note", "started_at", "completed_at", "error",
        "open_holds", "board__slug", "board__name",
    )  # fmt: skip
    return [TaskLine(task.board, task, label(task.title, task.goal_head) or task.public_id) for task in rows]


def _done_by_day(boards: Sequence[Board], mine: Q) -> dict[int, dict[date, int]]:
    rows = (
        Task.objects.filter(
            mine, board__in=boards, status=Status.COMPLETED, updated_at__gt=Now() - timedelta(days=DAYS)
        )
        .order_by()
        .annotate(day=TruncDate("updated_at"))
        .values_list("board_id", "day")
        .annotate(n=Count("*"))
    )
    found: dict[int, dict[date, int]] = {}
    for board_id, day, n in rows:
        found.setdefault(board_id, {})[day] = n
    return found


def _days(done: dict[date, int]) -> list[Day]:
    today = clock.now().date()
    span = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    most = max([done.get(day, 0) for day in span] + [1])
    width = 100 / DAYS
    days = []
    for n, day in enumerate(span):
        height = max(100 * done.get(day, 0) / most, 5)  # a day without one is a thin line, not a gap
        days.append(Day(day, done.get(day, 0), f"{n * width:.2f}%", f"{100 - height:.1f}%", f"{height:.1f}%"))
    return days

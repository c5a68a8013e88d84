"""The lanes of a board: which cards each shows first, how many there are, and since when (spec: 08 section 2).

Reads only. A card's place in its lane is one text (`place`), the same for the page, for the next page of a lane and
for a card that arrives over the socket: ascending text is the order that people see.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    F,
    Func,
    IntegerField,
    Min,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Length, Now

from boards.models import Board, RosterEntry, Task
from boards.queries.filters import BoardFilter
from boards.queries.statements import has_asked_key, made_once
from boards.states import LIVE, TERMINAL, Status

PAGE: Final = 50
FIRST: Final = {Status.COMPLETED: 12, Status.CANCELLED: 12}  # what is over steps back; the others begin with a page
RECENTLY: Final = timedelta(hours=24)

# In the order of the page; stacked ones share a column.
COLUMNS: Final = (
    (Status.PENDING, Status.HELD),
    (Status.IN_PROGRESS,),
    (Status.NEEDS_CHECK,),
    (Status.ERRORED,),
    (Status.COMPLETED, Status.CANCELLED),
)
STATUSES: Final = tuple(status for column in COLUMNS for status in column)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CEILING: Final = 2**53  # microseconds; counts down, so that ascending text is newest first
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LaneCount:
    """Of what matches: how many, since when the oldest, and how many ended in the last 24 hours."""

    status: str
    count: int = 0
    oldest: datetime | None = None
    recent: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """Every lane's count, and how many live tasks wait on a person."""

    lanes: dict[str, LaneCount]
    waiting: int = 0

    def of(self, status: str) -> int:
        return self.lanes[status].count

    @property
    def total(self) -> int:
        return sum(lane.count for lane in self.lanes.values())


def place(status: str, ticks: int, public_id: str, asks: bool) -> str:
    """Where a card stands in its lane; `ticks`: `place_ticks` of its row.

    Working: those that wait on a person first, then newest. The other lanes: newest first.
    """
    group = "1" if status == Status.IN_PROGRESS and not asks else "0"
    return f"{group}{_CEILING - ticks:016d}{len(public_id):03d}{public_id}"


def place_ticks() -> Func:
    """The moment that a lane is ordered by, in microseconds since 1970, as an expression over tasks."""
    moment = Case(When(status=Status.IN_PROGRESS, then=_began()), default=F("updated_at"))
    ticks = "(extract(epoch from %(expressions)s) * 1000000)::bigint"
    return Func(moment, template=ticks, output_field=BigIntegerField())


def first_keys(board: Board, filters: BoardFilter) -> dict[str, list[int]]:
    """The keys of each lane's first page, in any order. One query."""
    found: dict[str, list[int]] = {status: [] for status in STATUSES}
    for key, status in _first(*_asked_of(board), filters).tuples():
        found[status].append(key)
    return found


@made_once
def _first(pk: int, partition_by: str, filters: BoardFilter) -> QuerySet[Any, Any]:
    tasks = _matching(Board(pk=pk, partition_by=partition_by), filters)
    arms = [_ordered(tasks, status).values_list("key", "status")[: FIRST.get(status, PAGE)] for status in STATUSES]
    return arms[0].union(*arms[1:], all=True)


def _asked_of(board: Board) -> tuple[int, str]:
    """All of a board that a statement depends on."""
    return board.pk, board.partition_by


def next_keys(board: Board, filters: BoardFilter, status: str, after: str) -> list[int]:
    """The keys of the page behind the card at the place `after`; none where that is no place."""
    behind = _behind(status, after)
    if behind is None:
        return []
    lane = _ordered(_matching(board, filters), status).annotate(id_length=Length("public_id"))
    return list(lane.filter(behind).values_list("key", flat=True)[:PAGE])


def matching_keys(board: Board, filters: BoardFilter, keys: Iterable[int]) -> list[int]:
    """Those of `keys` that are of this board and match."""
    return [key for (key,) in _matched(*_asked_of(board), filters).tuples(list(keys))]


@made_once
def _matched(pk: int, partition_by: str, filters: BoardFilter) -> QuerySet[Any, Any]:
    return _matching(Board(pk=pk, partition_by=partition_by), filters).filter(has_asked_key()).values_list("key")


def lane_counts(board: Board, filters: BoardFilter) -> Counts:
    """What stands in the lane heads. One query, by index alone for what has ended."""
    rows = list(_counted(*_asked_of(board), filters).tuples())
    found = {status: LaneCount(status, n, oldest, recent) for status, n, oldest, recent, _waits in rows}
    waiting = sum(waits for *_count, waits in rows)
    return Counts({status: found.get(status, LaneCount(status)) for status in STATUSES}, waiting)


@made_once
def _counted(pk: int, partition_by: str, filters: BoardFilter) -> QuerySet[Any, Any]:
    board = Board(pk=pk, partition_by=partition_by)
    tasks = _matching(board, filters).order_by()
    live = tasks.filter(status__in=sorted(LIVE)).values("status")
    ended = tasks.filter(status__in=sorted(TERMINAL)).values("status")  # named, so that the index serves it
    zero = Value(0, output_field=IntegerField())
    waits = Count("status", filter=waits_on_person(board))
    return (
        live.annotate(n=Count("*"), oldest=Min(_since()), recent=zero, waits=waits)
        .union(
            ended.annotate(
                n=Count("*"), oldest=Min("updated_at"), recent=Count("status", filter=_recent()), waits=zero
            ),
            all=True,
        )
        .values_list("status", "n", "oldest", "recent", "waits")
    )


def waits_on_person(board: Board) -> Q:
    """Live tasks of a board that go on only when a person acts: asked, to be checked, or assigned to a person."""
    people = RosterEntry.objects.filter(board=board, kind=RosterEntry.Kind.PERSON).values("name")
    asked = Q(open_holds__gt=0, status__in=[Status.PENDING, Status.HELD, Status.IN_PROGRESS])
    to_check = Q(status=Status.NEEDS_CHECK) & (Q(checker="person") | Q(checker__in=people))
    to_work = Q(status__in=[Status.PENDING, Status.IN_PROGRESS], assignee__in=people, unmet_deps=0)
    return asked | to_check | to_work


def _matching(board: Board, filters: BoardFilter) -> QuerySet[Task]:
    return filters.apply(Task.objects.filter(board=board), board)


def _ordered(tasks: QuerySet[Task], status: str) -> QuerySet[Task]:
    # The lane index serves the first term; only rows written in the same instant are sorted by their ids.
    tasks = tasks.filter(status=status)
    if status != Status.IN_PROGRESS:
        return tasks.order_by("-updated_at", Length("public_id"), "public_id")
    return tasks.annotate(asks_last=_asks_last(), began=_began()).order_by(
        "asks_last", "-began", Length("public_id"), "public_id"
    )


def _behind(status: str, after: str) -> Q | None:
    """The condition of standing behind a place, the very order of `_ordered`."""
    group, ticks, length, public_id = after[:1], after[1:17], after[17:20], after[20:]
    if not (group + ticks + length).isascii() or not (group + ticks + length).isdigit() or not public_id:
        return None
    try:
        moment = _EPOCH + (_CEILING - int(ticks)) * _MICROSECOND
    except OverflowError:
        return None
    name = "began" if status == Status.IN_PROGRESS else "updated_at"
    longer = Q(id_length__gt=int(length)) | Q(id_length=int(length), public_id__gt=public_id)
    behind = Q(**{f"{name}__lt": moment}) | (Q(**{name: moment}) & longer)
    if status != Status.IN_PROGRESS:
        return behind
    return Q(asks_last__gt=int(group)) | (Q(asks_last=int(group)) & behind)


def _asks_last() -> Case:
    return Case(When(open_holds__gt=0, then=0), default=1, output_field=IntegerField())


def _began() -> Coalesce:
    return Coalesce(F("started_at"), F("updated_at"))


def _since() -> Case:
    """Since when a live task stands in its lane, for the head: filed, taken, or handed in."""
    return Case(
        When(status=Status.IN_PROGRESS, then=_began()),
        When(status=Status.NEEDS_CHECK, then=F("updated_at")),
        default=F("created_at"),
    )


def _recent() -> Q:
    return Q(updated_at__gt=Now() - RECENTLY)

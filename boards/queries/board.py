"""The board page and its live updates in a fixed number of queries, however many tasks there are (spec: 08 section 2).

Reads only. The board's own row brings its roster, its living drains, what each agent works on, and the cursor from
which a socket catches up; the cursor is taken before the cards are read, so a change may be told twice, never missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Count, OuterRef, Q, QuerySet
from django.db.models.functions import JSONObject, Now

from boards.errors import BoardNotFound
from boards.models import Board, Member, Process, RosterEntry, Space, Task
from boards.queries import clock
from boards.queries.cards import CardView, Roster, read_cards, roster_of
from boards.queries.catchup import cursor_at, snapshot
from boards.queries.drains import SILENT_AFTER
from boards.queries.filters import BoardFilter
from boards.queries.lanes import (
    COLUMNS,
    PAGE,
    Counts,
    LaneCount,
    first_keys,
    lane_counts,
    matching_keys,
    next_keys,
)
from boards.queries.partitions import address_of, own_rows
from boards.queries.statements import made_once
from boards.states import Status
from boards.tasks.decisions import FILED

__all__ = ["BoardFacts", "BoardPage", "CardsUpdate", "board_facts", "board_page", "cards", "lane_counts", "lane_page"]


_COLUMNS: Final = tuple(column.attname for column in Board._meta.concrete_fields)


@dataclass(frozen=True, slots=True)
class Agent:
    """A roster name in the presence row. `asks`: of its `running` tasks, how many wait on a person."""

    name: str
    kind: str
    running: int = 0
    asks: int = 0
    served: bool = True


@dataclass(frozen=True, slots=True)
class Drains:
    """The living drains that serve a board."""

    count: int = 0
    slots: int = 0
    busy: int = 0
    hosts: tuple[str, ...] = ()

    @property
    def slot_marks(self) -> list[bool]:
        return [n < self.busy for n in range(self.slots)]


@dataclass(frozen=True, slots=True)
class BoardFacts:
    """A board with what its pages say about it beside its tasks."""

    board: Board
    roster: Roster
    names: tuple[Agent, ...]
    drains: Drains
    cursor: str

    @property
    def agents(self) -> list[Agent]:
        return [name for name in self.names if name.kind != RosterEntry.Kind.PERSON]

    @property
    def wants_drain(self) -> bool:
        """Whether an agent of the board is started by a drain."""
        return not self.agents or any(agent.kind != RosterEntry.Kind.PULL for agent in self.agents)

    @property
    def signature(self) -> str:
        """Changes when cards that nobody touched read differently: who is served, and whether the board is paused."""
        return ",".join([f"paused={self.board.paused}", *sorted(self.roster.served)])


@dataclass(frozen=True, slots=True)
class Lane:
    status: Status
    count: LaneCount
    cards: list[CardView]

    @property
    def left(self) -> int:
        return max(0, self.count.count - len(self.cards))

    @property
    def next_count(self) -> int:
        return min(PAGE, self.left)

    @property
    def last_place(self) -> str:
        return self.cards[-1].place if self.cards else ""


@dataclass(frozen=True, slots=True)
class BoardPage:
    facts: BoardFacts
    filters: BoardFilter
    counts: Counts
    columns: list[list[Lane]]

    @property
    def board(self) -> Board:
        return self.facts.board


@dataclass(frozen=True, slots=True)
class CardsUpdate:
    """Cards that match a filter, and the dom ids' tasks that do not (or are gone): their keys."""

    cards: list[CardView]
    gone: list[int] = field(default_factory=list)


def board_facts(space: Space | int, slug: str, partition: str = "", reader: int = 0) -> BoardFacts:
    """One query. Of a partitioned board it tells of what runs in `partition`, else in those of the user `reader`.

    Raises BoardNotFound, also for another space's.
    """
    found = _named(space.pk if isinstance(space, Space) else space, slug, partition, reader)
    for row in found.dicts():
        return _facts(row)
    raise BoardNotFound


@made_once
def _named(space_id: int, slug: str, partition: str, reader: int) -> QuerySet[Any, Any]:
    # Without a reader nothing is told of what runs on a partitioned board, since it may be another's.
    seen = Q(partition=partition) if partition or not reader else own_rows(Member(user_id=reader))
    return _shaped(Board.objects.filter(space=space_id, slug=slug), seen)


def board_page(facts: BoardFacts, filters: BoardFilter) -> BoardPage:
    """Lanes with their first pages. Three queries."""
    counts = lane_counts(facts.board, filters)
    keys = first_keys(facts.board, filters)
    by_status: dict[str, list[CardView]] = {status: [] for status in keys}
    for card in read_cards(facts.board, facts.roster, [key for lane in keys.values() for key in lane]):
        by_status[card.status].append(card)
    columns = [[Lane(status, counts.lanes[status], by_status[status]) for status in column] for column in COLUMNS]
    return BoardPage(facts, filters, counts, columns)


def lane_page(facts: BoardFacts, filters: BoardFilter, status: str, after: str) -> list[CardView]:
    """The cards behind the place `after` in one lane. Two queries."""
    keys = next_keys(facts.board, filters, status, after)
    return [card for card in read_cards(facts.board, facts.roster, keys) if card.status == status]


def cards(board: Board | int, keys: Iterable[int], filters: BoardFilter | None = None) -> CardsUpdate:
    """What a socket sends of these tasks; `filters` None means all of the board. Two queries, three with a filter."""
    wanted = list(keys)
    pk = board.pk if isinstance(board, Board) else board
    facts = next(map(_facts, _keyed(pk).dicts()), None)
    if facts is None:
        return CardsUpdate([], wanted)
    board = facts.board
    if filters is not None and filters.chosen:  # the cards' links stay in the partition
        board.slug = address_of(board.slug, filters.partition)
    matching = matching_keys(board, BoardFilter() if filters is None else filters, wanted)
    return CardsUpdate(read_cards(board, facts.roster, matching), sorted(set(wanted) - set(matching)))


@made_once
def _keyed(pk: int) -> QuerySet[Any, Any]:
    return _shaped(Board.objects.filter(pk=pk), Q(partition=""))


def _shaped(boards: QuerySet[Board], seen: Q) -> QuerySet[Any, Any]:
    outer = OuterRef("pk")
    entry = JSONObject(
        name="name", kind="kind", user="user_id", first="user__first_name", last="user__last_name",
        login="user__username",
    )  # fmt: skip
    drain = JSONObject(host="host", boards="boards", assignees="assignees", slots="slots", busy="busy")
    alive = Process.objects.filter(kind=Process.Kind.DRAIN, stopped_at=None, beat_at__gt=Now() - SILENT_AFTER).order_by(
        "host", "pk"
    )
    nobody = Q(kept_open_by=FILED) | Q(lease_until__lte=Now())  # handed in; lost, until it is claimed again
    working = (
        Task.objects.filter(seen, board=outer, status=Status.IN_PROGRESS)
        .exclude(nobody)
        .order_by()
        .values("assignee")
        .annotate(n=Count("*"), asks=Count("pk", filter=Q(open_holds__gt=0)))
        .values(json=JSONObject(name="assignee", n="n", asks="asks"))
    )
    return boards.annotate(
        roster_rows=ArraySubquery(RosterEntry.objects.filter(board=outer).values(json=entry)),
        drain_rows=ArraySubquery(alive.values(json=drain)),
        working_rows=ArraySubquery(working),
        db_now=clock.annotation(),
        snapshot=snapshot(),
    ).values(*_COLUMNS, "roster_rows", "drain_rows", "working_rows", "db_now", "snapshot")


def _facts(row: dict[str, Any]) -> BoardFacts:
    clock.heard(row["db_now"])
    board = Board.from_db(DEFAULT_DB_ALIAS, _COLUMNS, [row[name] for name in _COLUMNS])
    serving = [d for d in row["drain_rows"] if not d["boards"] or board.pk in d["boards"]]
    roster = roster_of(board, row["roster_rows"], serving)
    running = {working["name"]: working for working in row["working_rows"]}
    names = tuple(
        Agent(
            entry["name"],
            entry["kind"],
            running.get(entry["name"], {}).get("n", 0),
            running.get(entry["name"], {}).get("asks", 0),
            roster.serves(entry["name"]),
        )
        for entry in row["roster_rows"]
    )
    drains = Drains(
        len(serving),
        sum(d["slots"] for d in serving),
        sum(min(d["busy"], d["slots"]) for d in serving),
        tuple(d["host"] for d in serving),
    )
    return BoardFacts(board, roster, names, drains, cursor_at(row["snapshot"]))

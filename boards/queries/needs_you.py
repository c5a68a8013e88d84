"""What waits on people: the one list, its order, its filters and the one count (spec: 04 section 3).

Reads only, in a number of queries that does not grow with the rows. What each row says and which acts it carries is
made in `boards.queries.waiting_words`; which rows there are, in `boards.queries.waiting_rows`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from operator import attrgetter
from typing import Final, Literal

from django.db.models.functions import Now

from boards.models import Board, FlowStep, Member, Process, RosterEntry
from boards.queries import clock
from boards.queries import waiting_rows as source
from boards.queries.silence import IfNobody, if_nobody
from boards.queries.task_refs import SILENT_AFTER
from boards.queries.waiting_light import Light, debt_light, hold_lights, run_light, task_lights, told_light
from boards.queries.waiting_row import GROUPS, Row
from boards.queries.waiting_rows import Counts

__all__ = [
    "GROUPS",
    "Counts",
    "Facet",
    "IfNobody",
    "NeedsYou",
    "Row",
    "Section",
    "Whose",
    "if_nobody",
    "matching",
    "needs_count",
    "needs_counts",
    "row_of",
    "waiting",
]

PAGE: Final = 30
SOON: Final = timedelta(hours=24)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)

Whose = Literal["mine", "role", "all"]


@dataclass(frozen=True, slots=True)
class Facet:
    """One filter of the rail: its value in the address, its words, and how many rows it would show."""

    value: str
    label: str
    count: int
    icon: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    rows: tuple[Row, ...]
    total: int


@dataclass(frozen=True, slots=True)
class NeedsYou:
    """A page of the list. `total` is of all rows that match; `rows` holds the first `PAGE` of them, in order."""

    rows: tuple[Row, ...]
    sections: tuple[Section, ...]
    total: int
    due_soon: int
    kinds: tuple[Facet, ...]
    boards: tuple[Facet, ...]
    agents: tuple[Facet, ...]
    flows: tuple[Facet, ...]
    whose: dict[str, int]
    everything: int
    counts: Counts  # of the member's own, whatever is filtered

    @property
    def is_narrowed(self) -> bool:
        """Whether the list holds something else than what the frame counts: a filter, or other people's rows."""
        return self.total != self.counts.blocking + self.counts.to_read

    @property
    def left_out(self) -> int:
        return self.total - len(self.rows)


def waiting(
    member: Member,
    kind: str = "",
    board: Board | str | None = None,
    search: str = "",
    whose: Whose = "mine",
    limit: int = PAGE,
    *,
    agent: str = "",
    flow: str = "",
) -> NeedsYou:
    """The rows that a member sees, due soonest first, then by priority, then oldest.

    `kind`: the value of a group in `GROUPS`; `board`: a board or its slug; `agent`: who asks or works; `flow`: a flow's
    key. Counts of each filter are of what it would show with the others as they are.
    """
    everything = _lights(member)
    found = [light for light in everything if _matches(light, search)] if search else everything
    chosen = [light for light in found if _is_whose(light, whose)]
    slug = board.slug if isinstance(board, Board) else board or ""
    wanted = {"group": kind, "board_slug": slug, "who": agent, "flow_key": flow}
    shown = _with(chosen, wanted)
    soon = clock.now() + SOON
    page = _named([light.make() for light in nsmallest(limit, shown, key=_order)], member)
    without_kind = _with(chosen, wanted, but="group")
    sections = Counter(_section(light, soon) for light in shown)
    return NeedsYou(
        rows=tuple(page),
        sections=tuple(_sections(page, sections, soon)),
        total=len(shown),
        due_soon=sections["soon"],
        kinds=_kind_facets(without_kind),
        boards=_board_facets(_with(chosen, wanted, but="board_slug")),
        agents=_facets(_with(chosen, wanted, but="who"), "who"),
        flows=_facets(_with(chosen, wanted, but="flow_key"), "flow_key"),
        whose={name: sum(_is_whose(light, name) for light in found) for name in ("mine", "role", "all")},
        everything=len(without_kind),
        counts=_counts(everything),
    )


def matching(member: Member, filters: Mapping[str, str]) -> list[Row]:
    """Every row that the filters of the page show, in its order, however many there are."""
    wanted = {"group": filters["kind"], "board_slug": filters["board"], "who": filters["agent"]}
    wanted["flow_key"] = filters["flow"]
    whose = filters["whose"] or "mine"
    found = [each for each in _lights(member) if _is_whose(each, whose) and _matches(each, filters["q"])]
    return [light.make() for light in sorted(_with(found, wanted), key=_order)]


def needs_counts(member: Member) -> Counts:
    """How many things of the member's own block work, and how many want to be read; one query."""
    return source.count(member)


def needs_count(member: Member) -> int:
    """How many things of the member's own block work, by the same conditions as the list; one query."""
    return needs_counts(member).blocking


def row_of(member: Member, key: str) -> Row | None:
    """One row by its key, wherever in the list it stands; None where it waits no more."""
    candidates = (light.make() for light in _lights(member) if light.key in {"", key})
    found = next((row for row in candidates if row.key == key), None)
    return _named([found], member)[0] if found else None


def _lights(member: Member) -> list[Light]:
    lights = [*hold_lights(member), *task_lights(member)]
    lights += [run_light(fact, member) for fact in source.run_rows(member)]
    lights += [debt_light(fact) for fact in source.debt_rows(member)]
    lights += [told_light(fact) for fact in source.told_rows(member)]
    return lights


def _counts(rows: Iterable[Light]) -> Counts:
    """As `needs_counts` reads them, of rows that are read already."""
    mine = [row.blocks for row in rows if row.mine]
    return Counts(sum(mine), len(mine) - sum(mine))


def _named(rows: list[Row], member: Member) -> list[Row]:
    """The rows with the names of their steps, and with why nobody takes a lost task up; at most two queries."""
    versions = {row.version_id for row in rows if row.version_id}
    steps = FlowStep.objects.filter(version__in=versions).values_list("version_id", "key", "name") if versions else ()
    names = {(version, key): name for version, key, name in steps}
    rows = [
        replace(row, step_name=names.get((row.version_id, row.step_key), row.step_key)) if row.version_id else row
        for row in rows
    ]
    if not any(row.group == "lost" for row in rows):
        return rows
    serves, outside = _served(), _outside(row.board_id for row in rows if row.group == "lost")
    return [
        replace(row, is_served=serves(row), is_outside=(row.board_id, row.who) in outside)
        if row.group == "lost"
        else row
        for row in rows
    ]


def _outside(boards: Iterable[int]) -> set[tuple[int, str]]:
    """Names of these boards whose workers take their tasks by themselves."""
    entries = RosterEntry.objects.filter(board__in=set(boards), kind=RosterEntry.Kind.PULL)
    return set(entries.values_list("board_id", "name"))


def _served() -> Callable[[Row], bool]:
    """Whether a drain that lives serves a row's board and assignee."""
    alive = Process.objects.filter(
        kind=Process.Kind.DRAIN, stopped_at=None, beat_at__gt=Now() - SILENT_AFTER
    ).values_list("boards", "assignees")
    drains = [(set(boards), set(assignees)) for boards, assignees in alive]

    def serves(row: Row) -> bool:
        return any(
            (not boards or row.board_id in boards) and f"{row.board_id}:{row.who}" in names for boards, names in drains
        )

    return serves


def _order(row: Light) -> tuple[bool, datetime, int, datetime, int]:
    return (not row.blocks, row.due_at or _NEVER, -row.priority, row.since, row.number)


def _section(row: Row | Light, soon: datetime) -> str:
    if not row.blocks:
        return "read"
    if row.due_at is None:
        return "none"
    return "soon" if row.due_at <= soon else "later"


def _sections(page: list[Row], totals: Mapping[str, int], soon: datetime) -> Iterable[Section]:
    for title in ("soon", "later", "none", "read"):
        if rows := tuple(row for row in page if _section(row, soon) == title):
            yield Section(title, rows, totals[title])


def _matches(row: Light, search: str) -> bool:
    words = search.casefold().split()
    return not words or _has_words(row.make(), words)


def _has_words(row: Row, words: list[str]) -> bool:
    searched = row.searched
    return all(word in searched for word in words)


def _is_whose(row: Light, whose: str) -> bool:
    return row.mine if whose == "mine" else row.for_role if whose == "role" else True


def _with(rows: list[Light], wanted: Mapping[str, str], but: str = "") -> list[Light]:
    """The rows whose columns are as wanted; `but` is the one that may be anything."""
    asked = [(name, value) for name, value in wanted.items() if value and name != but]
    return [row for row in rows if all(getattr(row, name) == value for name, value in asked)] if asked else rows


def _facets(rows: Iterable[Light], column: str) -> tuple[Facet, ...]:
    counts = Counter(map(attrgetter(column), rows))
    return tuple(Facet(value, value, counts[value]) for value in sorted(counts) if value)


def _kind_facets(rows: Iterable[Light]) -> tuple[Facet, ...]:
    counts = Counter(map(attrgetter("group"), rows))
    return tuple(Facet(g.value, str(g.label), counts[g.value], g.icon) for g in GROUPS if counts[g.value])


def _board_facets(rows: Iterable[Light]) -> tuple[Facet, ...]:
    counts = Counter(map(attrgetter("board_name", "board_slug"), rows))
    return tuple(Facet(slug, name, counts[name, slug]) for name, slug in sorted(counts) if slug)

"""What waits on people: the one list, its order, its filters and the one count (spec: 04 section 3).

Reads only, in a number of queries that does not grow with the rows. What each row says and which acts it carries is
made in `boards.queries.waiting_words`; which rows there are, in `boards.queries.waiting_rows`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from django.db.models.functions import Now

from boards.models import Board, FlowStep, Member, Process
from boards.queries import clock
from boards.queries import waiting_rows as source
from boards.queries.silence import IfNobody, if_nobody
from boards.queries.task_refs import SILENT_AFTER
from boards.queries.waiting_row import GROUPS, Row
from boards.queries.waiting_words import debt_row, hold_row, run_row, task_row

__all__ = [
    "GROUPS",
    "Facet",
    "IfNobody",
    "NeedsYou",
    "Row",
    "Section",
    "Whose",
    "if_nobody",
    "needs_count",
    "row_of",
    "waiting",
]

PAGE: Final = 50
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
    whose: dict[str, int]
    everything: int

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
) -> NeedsYou:
    """The rows that a member sees, due soonest first, then by priority, then oldest.

    `kind`: the value of a group in `GROUPS`; `board`: a board or its slug. Counts of each filter are of what it would
    show with the others as they are.
    """
    everything = _all_rows(member)
    matching = [row for row in everything if _matches(row, search)]
    chosen = [row for row in matching if _is_whose(row, whose)]
    slug = board.slug if isinstance(board, Board) else board or ""
    shown = sorted(
        (r for r in chosen if (not kind or r.group == kind) and (not slug or r.board_slug == slug)), key=_order
    )
    soon = clock.now() + SOON
    page = _named(shown[:limit], member)
    return NeedsYou(
        rows=tuple(page),
        sections=tuple(_sections(page, shown, soon)),
        total=len(shown),
        due_soon=sum(_is_soon(row, soon) for row in shown),
        kinds=_kind_facets(row for row in chosen if not slug or row.board_slug == slug),
        boards=_board_facets(row for row in chosen if not kind or row.group == kind),
        whose={name: sum(_is_whose(row, name) for row in matching) for name in ("mine", "role", "all")},
        everything=sum(not slug or row.board_slug == slug for row in chosen),
    )


def needs_count(member: Member) -> int:
    """How many things of the member's own block work, by the same conditions as the list; two queries."""
    if not source.may_act(member):
        return 0
    return source.count_blocking(member, source.people_of(member))


def row_of(member: Member, key: str) -> Row | None:
    """One row by its key, wherever in the list it stands; None where it waits no more."""
    found = next((row for row in _all_rows(member) if row.key == key), None)
    return _named([found], member)[0] if found else None


def _all_rows(member: Member) -> list[Row]:
    people = source.people_of(member)
    rows = [hold_row(fact, member) for fact in source.hold_rows(member)]
    rows += [task_row(fact, member) for fact in source.task_rows(member, people)]
    rows += [run_row(fact, member) for fact in source.run_rows(member)]
    rows += [debt_row(fact) for fact in source.debt_rows(member)]
    return rows


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
    serves = _served()
    return [replace(row, is_served=serves(row)) if row.group == "lost" else row for row in rows]


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


def _order(row: Row) -> tuple[datetime, int, datetime, str]:
    return (row.due_at or _NEVER, -row.priority, row.since, row.key)


def _is_soon(row: Row, soon: datetime) -> bool:
    return row.due_at is not None and row.due_at <= soon


def _sections(page: list[Row], shown: list[Row], soon: datetime) -> Iterable[Section]:
    tests: list[tuple[str, Callable[[Row], bool]]] = [
        ("soon", lambda row: _is_soon(row, soon)),
        ("later", lambda row: row.due_at is not None and not _is_soon(row, soon)),
        ("none", lambda row: row.due_at is None),
    ]
    for title, test in tests:
        if rows := tuple(row for row in page if test(row)):
            yield Section(title, rows, sum(map(test, shown)))


def _matches(row: Row, search: str) -> bool:
    words = search.casefold().split()
    return all(word in row.searched for word in words) if words else True


def _is_whose(row: Row, whose: str) -> bool:
    return row.mine if whose == "mine" else row.for_role if whose == "role" else True


def _kind_facets(rows: Iterable[Row]) -> tuple[Facet, ...]:
    counts = Counter(row.group for row in rows)
    return tuple(Facet(g.value, str(g.label), counts[g.value], g.icon) for g in GROUPS if counts[g.value])


def _board_facets(rows: Iterable[Row]) -> tuple[Facet, ...]:
    counts = Counter((row.board_name, row.board_slug) for row in rows if row.board_slug)
    return tuple(Facet(slug, name, counts[name, slug]) for name, slug in sorted(counts))

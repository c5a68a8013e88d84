"""A flow's board: its runs as cards in the columns of its steps (spec: 05 section 5, 08 "Flow board"). Reads only.

The number of queries does not depend on how many columns or runs there are. The order of a column is the order in which
its runs are let in, or pulled from it; what is over stands under that, newest first, by the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Case, CharField, Count, F, Value, When
from django.db.models.functions import Coalesce

from boards.flows import definition
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.flows.limits import Limits, is_full, limits_of
from boards.flows.starting import not_first
from boards.models import Flow, FlowRun, FlowStep, FlowVersion
from boards.queries.flow_cards import RunCard, read_run_cards
from boards.queries.flow_filter import RunFilter
from boards.queries.run_steps import ICONS
from boards.queries.runs import start_form
from boards.queries.schema_fields import Field
from boards.states import RunStatus

PAGE: Final = 50
OVER: Final = 12  # what is over steps back
MOST: Final = 1_000
_OVER_STATES: Final = (RunStatus.COMPLETED, RunStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class Column:
    """One step. `admitted`: how many runs take a place of it, `limit`: how many may (0: any number).

    `cards` are those that are in, or over; `queued` those that wait for a place, the first in line first; `left`: how
    many more there are of what matches. `is_old`: only older versions have the step.
    """

    key: str
    name: str
    icon: str
    color: str
    limit: int
    admitted: int
    line: int
    over: int
    cards: tuple[RunCard, ...]
    queued: tuple[RunCard, ...]
    left: int
    shown: int
    oldest: datetime | None
    feeder: str = ""
    may_start: bool = False
    is_old: bool = False
    is_terminal: bool = False

    @property
    def is_full(self) -> bool:
        return is_full(self.limit, self.admitted)

    @property
    def count(self) -> int:
        """How many cards stand there, of what matches."""
        return self.shown + self.left

    @property
    def more(self) -> int:
        """How many cards the next page shows in all."""
        return self.shown + PAGE


@dataclass(frozen=True, slots=True)
class FlowBoard:
    flow: Flow
    version: FlowVersion | None
    filters: RunFilter
    columns: tuple[Column, ...]
    active: int
    fields: tuple[Field, ...]
    style: str
    first: str  # the key of the step in which a run begins where nobody says otherwise

    @property
    def starts(self) -> list[Column]:
        """The columns in which a person may start a run."""
        return [column for column in self.columns if column.may_start]


@dataclass(frozen=True, slots=True)
class _Live:
    """The runs that are not over, in the order of their columns: key -> what stands there."""

    admitted: dict[str, list[int]]
    queued: dict[str, list[int]]
    matching: set[int]
    oldest: dict[str, datetime]


def flow_board(flow: Flow, filters: RunFilter, shown: Mapping[str, int] | None = None) -> FlowBoard:
    """The board of the newest version's steps. `shown`: column key -> how many of its cards, where not a page."""
    version = FlowVersion.objects.filter(flow=flow).select_related("flow").order_by("-number").first()
    told = definition.load(version) if version else FlowDefinition(flow.key, flow.name, ())
    live = _live(flow, filters)
    over = _over_counts(flow, filters, told)
    steps = list(told.steps) + _old_steps(flow, told, {*live.admitted, *live.queued, *over})
    wanted = {step.key: min(MOST, (shown or {}).get(step.key) or 0) for step in steps}
    keys = {step.key: _first_live(live, step.key, wanted[step.key] or PAGE) for step in steps}
    behind = {step.key: _room(wanted[step.key], keys[step.key]) for step in steps if over.get(step.key)}
    ended = _over_keys(flow, filters, told, behind)
    found = [key for ins, lines in keys.values() for key in (*ins, *lines)] + [
        k for each in ended.values() for k in each
    ]
    cards = {card.key: card for card in read_run_cards(flow, found, live.queued)}
    columns = tuple(_column(told, step, live, over, keys[step.key], ended.get(step.key, ()), cards) for step in steps)
    return FlowBoard(
        flow=flow,
        version=version,
        filters=filters,
        columns=columns,
        active=sum(len(each) for each in live.admitted.values()) + sum(len(each) for each in live.queued.values()),
        fields=start_form(version.settings).fields() if version else (),
        style=told.style,
        first=told.start_step.key if told.steps else "",
    )


def _live(flow: Flow, filters: RunFilter) -> _Live:
    """One query of a few columns; what is archived is over for the board."""
    live = FlowRun.objects.filter(flow=flow, archived_at=None, status__in=(RunStatus.ACTIVE, RunStatus.FAILED))
    matches = Value(False) if filters.archived else Case(When(filters.matching(), then=True), default=False)
    rows = live.annotate(matches=matches, began=Coalesce("queued_at", "stands_since")).order_by(
        "position", "-priority", "began", "created_at", "pk"
    )
    found = _Live(defaultdict(list), defaultdict(list), set(), {})
    for key, step, queued, began, does in rows.values_list("pk", "step_key", "queued_step", "began", "matches"):
        (found.queued if queued else found.admitted)[queued or step].append(key)
        if does:
            found.matching.add(key)
        if not queued:
            found.oldest[step] = min(began, found.oldest.get(step, began))
    return found


def _first_live(live: _Live, key: str, most: int) -> tuple[list[int], list[int]]:
    ins = [run for run in live.admitted.get(key, ()) if run in live.matching][:most]
    lines = [run for run in live.queued.get(key, ()) if run in live.matching][: max(0, most - len(ins))]
    return ins, lines


def _room(wanted: int, live: tuple[list[int], list[int]]) -> int:
    """How many cards of what is over a column shows."""
    return max(OVER, wanted - len(live[0]) - len(live[1]))


def _ended(flow: Flow, filters: RunFilter, told: FlowDefinition) -> Any:
    """What is over, or in the archive where that is asked for, with the column that it stands in."""
    rows = FlowRun.objects.filter(filters.matching(), flow=flow)
    rows = (
        rows.exclude(archived_at=None) if filters.archived else rows.filter(archived_at=None, status__in=_OVER_STATES)
    )
    own = Case(When(queued_step="", then=F("step_key")), default=F("queued_step"), output_field=CharField())
    last = next((step.key for step in reversed(told.steps) if told.is_terminal(step)), "")
    if not last:
        return rows.annotate(column=own)
    # A run that was cancelled is out of its step: it stands with what else is over.
    return rows.annotate(column=Case(When(status=RunStatus.CANCELLED, then=Value(last)), default=own))


def _over_counts(flow: Flow, filters: RunFilter, told: FlowDefinition) -> dict[str, int]:
    rows = _ended(flow, filters, told).order_by().values("column").annotate(n=Count("pk"))
    return {row["column"]: row["n"] for row in rows}


def _over_keys(flow: Flow, filters: RunFilter, told: FlowDefinition, most: Mapping[str, int]) -> dict[str, list[int]]:
    """The newest of what is over in each column. One query, whose parts end at their page."""
    arms = [
        _ended(flow, filters, told).filter(column=key).order_by("-stands_since", "-pk").values_list("pk", "column")[:n]
        for key, n in most.items()
    ]
    found: dict[str, list[int]] = {key: [] for key in most}
    if arms:
        for run, key in arms[0].union(*arms[1:], all=True):
            found[key].append(run)
    return found


def _old_steps(flow: Flow, told: FlowDefinition, used: Iterable[str]) -> list[StepDefinition]:
    """The steps that only older versions have and where a run still stands, as the newest of those calls them."""
    missing = {key for key in used if key and told.step(key) is None}
    if not missing:
        return []
    rows = FlowStep.objects.filter(version__flow=flow, key__in=missing).order_by("key", "-version__number")
    found = {row.key: row for row in rows.distinct("key")}
    return [definition.step_from_row(found[key]) for key in sorted(found, key=lambda key: (found[key].position, key))]


def _column(
    told: FlowDefinition,
    step: StepDefinition,
    live: _Live,
    over: Mapping[str, int],
    keys: tuple[Sequence[int], Sequence[int]],
    ended: Sequence[int],
    cards: Mapping[int, RunCard],
) -> Column:
    limits: Limits = limits_of(told.steps)
    is_known = told.step(step.key) is not None
    ins, line = keys
    there = [run for run in (*live.admitted.get(step.key, ()), *live.queued.get(step.key, ())) if run in live.matching]
    over_cards = sorted((cards[key] for key in ended if key in cards), key=lambda card: (card.since, card.key))
    shown = (*(cards[key] for key in ins if key in cards), *reversed(over_cards))
    feeder = told.step(limits.feeder(step.key))
    return Column(
        key=step.key,
        name=step.name,
        icon="flag" if is_known and told.is_terminal(step) else ICONS.get(step.kind, "board"),
        color=step.color,
        limit=limits.of(step.key),
        admitted=len(live.admitted.get(step.key, ())),
        line=len(live.queued.get(step.key, ())),
        over=over.get(step.key, 0),
        cards=shown,
        queued=tuple(cards[key] for key in line if key in cards),
        left=len(there) - len(ins) - len(line) + over.get(step.key, 0) - len(ended),
        shown=len(ins) + len(line) + len(ended),
        oldest=live.oldest.get(step.key),
        feeder=feeder.name if feeder else "",
        may_start=is_known and not not_first(told, step),
        is_old=not is_known,
        is_terminal=is_known and told.is_terminal(step),
    )

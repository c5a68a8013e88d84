"""Many rows of *Needs you* at once: which of them take the same act, and what each shows before it (spec: 04, 3.4).

Pure choice over rows that were read; what may really be done is each verb's decision, row by row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from boards.models import Member
from boards.queries.asks import AskView, choices_of, view_holds
from boards.queries.waiting_row import GROUPS, Row
from boards.states import HoldKind

# An answer is bound to what was shown, so all of it has to fit on the page that asks.
MOST_SHOWN: Final = 100
SHOWN_FIRST: Final = 20
_BOUND: Final = frozenset({HoldKind.APPROVAL, HoldKind.REVIEW, HoldKind.GATE})
_LABELS: Final = {group.value: group.label for group in GROUPS}


@dataclass(frozen=True, slots=True)
class BulkAct:
    """One act on all rows of a pile. `words`: "" takes none, "may" or "must" asks for them."""

    verb: str
    label: str | Promise
    words: str = ""
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Pile:
    """Rows that take the same acts; `key` names what they have in common.

    `asks`: of bound questions, each with its draft. `too_many`: more of them than can be shown at once.
    """

    key: str
    label: str | Promise
    rows: tuple[Row, ...]
    acts: tuple[BulkAct, ...]
    asks: tuple[AskView, ...] = ()

    @property
    def total(self) -> int:
        return len(self.rows)

    @property
    def too_many(self) -> bool:
        return self.is_bound and self.total > MOST_SHOWN

    @property
    def takes_words(self) -> bool:
        return any(act.words for act in self.acts)

    @property
    def first(self) -> tuple[Row, ...]:
        """What is listed before an act on many more."""
        return self.rows[:SHOWN_FIRST]

    @property
    def beyond_first(self) -> int:
        return self.total - len(self.first)

    @property
    def is_bound(self) -> bool:
        return bool(self.rows) and self.rows[0].hold_kind in _BOUND


ACTS: Final[dict[str, tuple[BulkAct, ...]]] = {
    "stuck": (BulkAct("retry", _("Retry")), BulkAct("skip", _("Skip"), "must", True)),
    "check": (BulkAct("accept", _("Accept")), BulkAct("send_back", _("Send back"), "must", True)),
    "assigned": (BulkAct("claim", _("Start")), BulkAct("hand_back", _("Give back"), "may", True)),
    "lost": (BulkAct("reclaim", _("Reclaim")),),
    "debt": (BulkAct("debt_retry", _("Try again")), BulkAct("debt_drop", _("Drop"), quiet=True)),
    "notice": (BulkAct("debt_retry", _("Try again")), BulkAct("debt_drop", _("Drop"), quiet=True)),
    "flow": (BulkAct("run_again", _("Run the step again")), BulkAct("mark_complete", _("Mark complete"), quiet=True)),
    "late": (BulkAct("seen", _("Mark as seen")),),
    "told": (BulkAct("seen", _("Mark as seen")),),
}


def piles(rows: Iterable[Row], member: Member) -> list[Pile]:
    """The rows that are the member's own, by what may be done with them; those that take nothing at once are last."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.mine:
            found.setdefault((row.group, _of_one_kind(row)), []).append(row)
    made = [_pile(group, kind, tuple(of)) for (group, kind), of in found.items()]
    return [_with_asks(pile, member) for pile in sorted(made, key=lambda pile: (not pile.acts, -pile.total))]


def _of_one_kind(row: Row) -> str:
    """What makes answers to two questions the same: their kind, and of a question its options too."""
    return f"{row.hold_kind}:{row.options}" if row.hold_kind == HoldKind.QUESTION else row.hold_kind


def _pile(group: str, kind: str, rows: Sequence[Row]) -> Pile:
    first = rows[0]
    acts = ACTS.get(group, ()) if not first.hold_id else _answers(first)
    return Pile(f"{group}.{hashlib.sha256(kind.encode()).hexdigest()[:12]}", _LABELS[group], tuple(rows), acts)


def _answers(row: Row) -> tuple[BulkAct, ...]:
    if row.hold_kind == HoldKind.INPUT:
        return ()  # a form is filled in one by one
    chosen = [
        BulkAct(f"answer:{choice.value}", choice.label, "must" if choice.value == "request_changes" else "may", n > 0)
        for n, choice in enumerate(choices_of(row.hold_kind, row.options))
    ]
    own = [BulkAct("answer:", _("Answer in these words"), "must", True)] if row.hold_kind == HoldKind.QUESTION else []
    return (*chosen, *own)


def _with_asks(pile: Pile, member: Member) -> Pile:
    if not pile.is_bound or pile.too_many:
        return pile
    asks = view_holds(member, [row.hold_id for row in pile.rows])
    return Pile(pile.key, pile.label, pile.rows, pile.acts, tuple(asks))

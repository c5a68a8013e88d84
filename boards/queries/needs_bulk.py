"""Many rows of *Needs you* at once: which of them take the same act, and what each shows before it (spec: 04, 3.4).

Reads only, a few queries for each pile; what may really be done is each verb's decision, row by row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from boards.models import Member
from boards.queries.asks import AskView, choices_of, view_holds
from boards.queries.checks import LONG_TEXT, CheckView, checks
from boards.queries.waiting_row import GROUPS, Row
from boards.states import HoldKind

# An answer is bound to what was shown, so all of it has to fit on the page that asks.
MOST_SHOWN: Final = 100
SHOWN_FIRST: Final = 20
_DONE: Final = _("done")
_BOUND: Final = frozenset({HoldKind.APPROVAL, HoldKind.REVIEW, HoldKind.GATE})
_LABELS: Final = {group.value: group.label for group in GROUPS}


@dataclass(frozen=True, slots=True)
class BulkAct:
    """One act on all rows of a pile. `words`: "" takes none, "may" or "must" asks for them; `done`: what a row says
    after it.
    """

    verb: str
    label: str | Promise
    words: str = ""
    quiet: bool = False
    done: str | Promise = _DONE


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of a pile with its question or its check, and whether that is short enough to stand open."""

    row: Row
    ask: AskView | None = None
    check: CheckView | None = None

    @property
    def is_short(self) -> bool:
        if self.check is not None:
            return self.check.output is not None and self.check.head is None
        draft = self.ask.draft.size if self.ask and self.ask.draft else 0
        return self.ask is not None and draft + len(self.ask.body) + len(self.ask.hold.context) <= LONG_TEXT


@dataclass(frozen=True, slots=True)
class Pile:
    """Rows that take the same acts; `key` names what they have in common.

    `shown`: each row with what has to be read before it is decided: its question, or its result. `too_many`: more of
    them than can be shown at once.
    """

    key: str
    label: str | Promise
    rows: tuple[Row, ...]
    acts: tuple[BulkAct, ...]
    shown: tuple[Shown, ...] = ()

    @property
    def total(self) -> int:
        return len(self.rows)

    @property
    def too_many(self) -> bool:
        return self.reads_first and self.total > MOST_SHOWN

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
    def reads_first(self) -> bool:
        """Whether something has to be read before any of them is decided."""
        return any(_reads_first(row) for row in self.rows)


ACTS: Final[dict[str, tuple[BulkAct, ...]]] = {
    "stuck": (
        BulkAct("retry", _("Retry"), done=_("retried")),
        BulkAct("skip", _("Skip"), "must", True, done=_("skipped")),
    ),
    "check": (
        BulkAct("accept", _("Accept"), done=_("accepted")),
        BulkAct("send_back", _("Send back"), "must", True, done=_("sent back")),
    ),
    "assigned": (
        BulkAct("claim", _("Start"), done=_("started")),
        BulkAct("hand_back", _("Give back"), "may", True, done=_("given back")),
    ),
    "lost": (BulkAct("reclaim", _("Reclaim"), done=_("reclaimed")),),
    "flow": (
        BulkAct("run_again", _("Run step again"), done=_("the step runs again")),
        BulkAct("mark_complete", _("Mark complete and advance"), quiet=True, done=_("marked complete")),
    ),
    "late": (BulkAct("seen", _("Mark as seen"), done=_("marked as seen")),),
    "told": (BulkAct("seen", _("Mark as seen"), done=_("marked as seen")),),
}


def piles(rows: Iterable[Row], member: Member) -> list[Pile]:
    """The rows that are the member's own, by what may be done with them; those that take nothing at once are last."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.mine:
            found.setdefault((row.group, _of_one_kind(row)), []).append(row)
    made = [_pile(group, kind, tuple(of)) for (group, kind), of in found.items()]
    return [_with_shown(pile, member) for pile in sorted(made, key=lambda pile: (not pile.acts, -pile.total))]


def _of_one_kind(row: Row) -> str:
    """What makes two rows take the same act: of a debt its acts, of a question its kind and options."""
    if row.debt_id:
        return ",".join(act.verb for act in _of_debt(row))
    return f"{row.hold_kind}:{row.options}" if row.hold_kind == HoldKind.QUESTION else row.hold_kind


def _pile(group: str, kind: str, rows: Sequence[Row]) -> Pile:
    first = rows[0]
    acts = _answers(first) if first.hold_id else _of_debt(first) if first.debt_id else ACTS.get(group, ())
    return Pile(f"{group}.{hashlib.sha256(kind.encode()).hexdigest()[:12]}", _LABELS[group], tuple(rows), acts)


def _of_debt(row: Row) -> tuple[BulkAct, ...]:
    """Those of its own row: a stop is never dropped, and what cannot be paid any more is only marked as seen."""
    acts = [act for act in row.acts if act.to == "debt"]
    done = {"retry": _("paid"), "drop": _("dropped") if len(acts) > 1 else _("marked as seen")}
    return tuple(BulkAct(f"debt_{act.verb}", act.label, quiet=act.quiet, done=done[act.verb]) for act in acts)


def _answers(row: Row) -> tuple[BulkAct, ...]:
    if row.hold_kind == HoldKind.INPUT:
        return ()  # a form is filled in one by one
    chosen = [
        BulkAct(
            f"answer:{choice.value}",
            choice.label,
            "must" if choice.value == "request_changes" else "may",
            n > 0,
            done=format_lazy(_("answered “{label}”"), label=choice.label),
        )
        for n, choice in enumerate(choices_of(row.hold_kind, row.options))
    ]
    own = [BulkAct("answer:", _("Answer in these words"), "must", True)] if row.hold_kind == HoldKind.QUESTION else []
    return (*chosen, *own)


def _reads_first(row: Row) -> bool:
    return row.group == "check" or row.hold_kind in _BOUND or row.reads_first


def _with_shown(pile: Pile, member: Member) -> Pile:
    """What is to be read of each row, so that nobody decides on what they have not seen."""
    if not pile.reads_first or pile.too_many:
        return pile
    if pile.rows[0].group == "check":
        found = checks(member, pile.rows)
        shown = [Shown(row, check=found[row.key]) for row in pile.rows if row.key in found]
    else:
        asks = {ask.hold.pk: ask for ask in view_holds(member, [row.hold_id for row in pile.rows])}
        shown = [Shown(row, ask=asks[row.hold_id]) for row in pile.rows if row.hold_id in asks]
    return replace(pile, shown=tuple(shown))

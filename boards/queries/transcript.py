"""Makes the lines of a transcript ready for a page, one capped page at a time (spec: 08, faults 23).

Lines are what a worker printed or said: terminal codes are taken out and long ones are folded; templates escape.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from boards.markup import plain
from boards.models import TranscriptItem

FIRST_PAGE: Final = 40  # what a page opens with: the end of a long run, not all of it
PAGE: Final = 100
_FOLD_CHARS: Final = 700
_FOLD_LINES: Final = 8
_HEAD: Final = 160


@dataclass(frozen=True, slots=True)
class Line:
    """`head` is shown; `rest` is the whole text where that is too long to stand there unfolded."""

    key: int
    at: datetime
    kind: str
    who: str
    head: str
    rest: str = ""

    @property
    def person(self) -> bool:
        """Whether a person said it: people send messages and answers, all else is a worker's."""
        return self.kind in {TranscriptItem.Kind.STEER, TranscriptItem.Kind.ANSWERED}


@dataclass(frozen=True, slots=True)
class Lines:
    """Oldest first. `before`: the cursor of the page before these, or None where they are the first."""

    lines: list[Line]
    before: int | None = None


def lines_of(items: QuerySet[TranscriptItem], *, before: int = 0) -> Lines:
    """The newest page of the items, or the newest below the cursor; one query."""
    rows, most = items.order_by("-id"), PAGE if before else FIRST_PAGE
    found = list((rows.filter(pk__lt=before) if before else rows)[: most + 1])
    lines = [line_of(item) for item in reversed(found[:most])]
    return Lines(lines, lines[0].key if len(found) > most else None)


def line_of(item: TranscriptItem) -> Line:
    text = plain(item.text.replace("\r\n", "\n"))
    if len(text) <= _FOLD_CHARS and text.count("\n") < _FOLD_LINES:
        return Line(item.pk, item.at, item.kind, item.who, text)
    first = next((line for line in text.splitlines() if line.strip()), "")
    return Line(item.pk, item.at, item.kind, item.who, first[:_HEAD], text)

"""What a member's own browser tells: the rows that came up since it last asked (spec: 04 section 4).

Reads only. No service in between: an open page hears by its socket that something changed, and asks here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import Q

from boards.models import Preference
from boards.telling.letters import one_line
from boards.telling.occurrences import Near, Occurrence, standing
from boards.telling.times import quiet_until, rhythm_of
from boards.telling.wants import wants

OVERLAP: Final = timedelta(seconds=60)  # a write may commit so long after the moment that it carries
LONGEST: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class News:
    """`at`: ask from here the next time. `quiet`: the rows come when the quiet hours are over."""

    at: datetime
    quiet: bool
    found: tuple[Occurrence, ...] = ()


def news(told: Preference, since: datetime | None) -> News:
    """What came up since then, in order; a browser that asks for the first time hears what is already there."""
    with connection.cursor() as query:
        query.execute("select statement_timestamp()")
        now = query.fetchone()[0]
    if told.browser_since is None and not told.sound:
        return News(now, False)
    if since is not None and quiet_until(now, rhythm_of(told)):
        return News(since, True)
    begin = max((since or now) - OVERLAP, told.browser_since or now - LONGEST, now - LONGEST)
    near = Near(
        holds=Q(asked_at__gte=begin),
        tasks=Q(updated_at__gte=begin) | Q(lease_until__gte=begin) | Q(not_before__gte=begin),
        runs=Q(completed_at__gte=begin) | Q(current_visit__entered_at__gte=begin)
        | Q(current_visit__task__updated_at__gte=begin),
        debts=Q(due_at__gte=begin),
        told=Q(at__gte=begin),
    )  # fmt: skip
    muted = set(told.muted_boards.values_list("pk", flat=True))
    found = [one for one in standing(told.member, near) if one.at >= begin and wants(told, muted, one.row)]
    return News(now, False, tuple(found))


def words_of(one: Occurrence) -> tuple[str, str]:
    """The title of a notification and its text."""
    row = one.row
    says = " ".join(row.says.split())[:200]
    about = [says, row.words, row.subject if row.subject != row.title else "", row.board_name]
    return one_line(row.title, 120), " · ".join(one_line(part, 80) for part in about if part)

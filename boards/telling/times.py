"""When a message may go out: pace, digests and quiet hours by a member's own clock (spec: 04 section 4). Pure.

Every answer is a moment, so a clock that is set back or forward moves nothing twice and skips nothing: a daily digest
belongs to a date, and quiet hours last until the later of two equal readings of the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from boards.models import Preference

FOLD: Final = timedelta(seconds=3)  # what is asked in one breath is one message
BURST: Final = 3  # messages within a minute; what comes then waits for its end, together
MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When one member wants to be told. Quiet hours are both or neither; equal ends are no quiet hours."""

    zone: str = "UTC"
    pace: str = Preference.Pace.AT_ONCE
    digest_at: time = time(8)
    quiet_from: time | None = None
    quiet_to: time | None = None


def rhythm_of(told: Preference) -> Rhythm:
    return Rhythm(told.zone, told.pace, told.digest_at, told.quiet_from, told.quiet_to)


def zone_of(name: str) -> ZoneInfo:
    """The zone, or UTC where this machine knows none of that name."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return ZoneInfo("UTC")


def quiet_until(now: datetime, it: Rhythm) -> datetime | None:
    """The end of the quiet hours in which `now` lies, or None."""
    if it.quiet_from is None or it.quiet_to is None or it.quiet_from == it.quiet_to:
        return None
    zone = zone_of(it.zone)
    today = now.astimezone(zone).date()
    for day in (today - timedelta(days=1), today, today + timedelta(days=1)):
        last = day if it.quiet_from < it.quiet_to else day + timedelta(days=1)
        begins, ends = min(_readings(day, it.quiet_from, zone)), max(_readings(last, it.quiet_to, zone))
        if begins <= now < ends:
            return ends
    return None


def next_digest(now: datetime, it: Rhythm) -> datetime:
    """The next full hour, or the next of the daily moments, one for each date: at the first of two equal readings."""
    zone = zone_of(it.zone)
    here = now.astimezone(zone)
    if it.pace == Preference.Pace.HOURLY:
        past = timedelta(minutes=here.minute, seconds=here.second, microseconds=here.microsecond)
        return now - past + timedelta(hours=1)
    days = (here.date() + timedelta(days=offset) for offset in (-1, 0, 1, 2))
    moments = (_readings(day, it.digest_at, zone)[0] for day in days)
    return next(moment for moment in moments if moment > now)


def goes_out_at(now: datetime, it: Rhythm, sent: list[datetime]) -> datetime:
    """When what has just come up goes out. `sent`: when the last messages on the channel went out, newest first."""
    if it.pace == Preference.Pace.AT_ONCE:
        recent = [moment for moment in sent if moment > now - MINUTE]
        at = recent[0] + MINUTE if len(recent) >= BURST else now + FOLD
    else:
        at = next_digest(now, it)
    return quiet_until(at, it) or at


def _readings(day: date, at: time, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The moments at which the clock shows that: two where it is set back. A reading that is skipped is moved on by
    the hour that is missing (the first of the two).
    """
    utc = ZoneInfo("UTC")
    first, second = (datetime.combine(day, at.replace(fold=fold), zone).astimezone(utc) for fold in (0, 1))
    return first, second

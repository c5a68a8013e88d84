"""When a cron expression is due next, in a time zone, by the rules of `cronsim` (spec: 05 section 7). Pure.

An expression that names readings of the clock is due once for each, also where the clock skips or repeats that hour;
with a star for minute or hour it runs in real time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MAX_EXPRESSION: Final = 100
_TAKES: Final = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L or LW",
    "month": "1 to 12, or jan to dec",
    "day-of-week": "0 to 7, or sun to sat, with #1 to #5 or L",
}


class CronError(ValueError):
    """An expression or a zone that cannot be read; the message is the sentence for the reader."""


def next_after(expression: str, zone: str, moment: datetime) -> datetime:
    """The first moment after `moment` at which the expression is due, in UTC. Raises CronError with a sentence."""
    place = zone_of(zone)
    if len(expression) > MAX_EXPRESSION or len(expression.split()) != len(_TAKES):
        raise CronError("A cron expression has five fields: minute, hour, day of the month, month, day of the week.")
    try:
        # Within an hour that the clock repeats the library begins with what was due the first time.
        due = (found.astimezone(UTC) for found in CronSim(expression, moment.astimezone(place)))
        found = next((each for each in due if each > moment), None)
    except CronSimError as error:
        raise CronError(_words(expression, str(error))) from None
    if found is None:
        raise CronError(f"“{expression}” is never due. There is no such day.")
    return found


def next_times(expression: str, zone: str, moment: datetime, count: int) -> list[datetime]:
    """The next `count` moments, in the zone. Raises CronError."""
    found: list[datetime] = []
    for _ in range(count):
        moment = next_after(expression, zone, moment)
        found.append(moment.astimezone(zone_of(zone)))
    return found


def zone_of(name: str) -> ZoneInfo:
    """The zone of that name. Raises CronError."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise CronError(f"There is no time zone “{name[:64]}”. Write one like Europe/Copenhagen or UTC.") from None


def _words(expression: str, told: str) -> str:
    """What is wrong with the field that the library names."""
    name = told.removeprefix("Bad ")
    if name not in _TAKES:
        return f"“{expression}” is no cron expression: {told}."
    given = expression.split()[list(_TAKES).index(name)]
    readable = {"day-of-month": "day of the month", "day-of-week": "day of the week"}.get(name, name)
    return f"“{given[:20]}” is no {readable}. It takes {_TAKES[name]}, and lists, ranges and steps of them."

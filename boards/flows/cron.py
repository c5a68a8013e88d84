"""When a cron expression is due next, in a time zone, by the rules of `cronsim` (spec: 05 section 7). Pure.

Five fields. Where neither the minute nor the hour begins with a star the expression names readings of the clock: one
that is skipped when the clock is put forward is due once, right after the gap, and one that comes twice is due the
first time only. With a star it runs in real time, through both.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import product
from typing import Final
from zoneinfo import ZoneInfo

MAX_EXPRESSION: Final = 100
YEARS: Final = 50  # an expression that is not due for so long never is
_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)
_LAST, _LAST_WEEKDAY = -1, -2  # L and LW as a day of the month
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class CronError(ValueError):
    """An expression or a zone that cannot be read; the message is the sentence for the reader."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A read expression. `weekdays`: (0 = Sunday, which one of the month: 0 any, 1-5, -1 the last)."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[tuple[int, int]]
    both_days: bool  # both day fields have to hold; else either
    by_the_clock: bool  # names readings of the clock, and not moments that pass

    def holds_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_week = self._by_date(day), self._by_week(day)
        return by_date and by_week if self.both_days else by_date or by_week

    def _by_date(self, day: date) -> bool:
        last = calendar.monthrange(day.year, day.month)[1]
        if day.day in self.days or (_LAST in self.days and day.day == last):
            return True
        if _LAST_WEEKDAY not in self.days:
            return False
        end = day.replace(day=last)
        return day == end - timedelta(days=max(0, end.weekday() - 4))

    def _by_week(self, day: date) -> bool:
        weekday, nth = day.isoweekday() % 7, (day.day - 1) // 7 + 1
        is_last = day.day + 7 > calendar.monthrange(day.year, day.month)[1]
        return any(each in self.weekdays for each in ((weekday, 0), (weekday, nth), *([(weekday, -1)] * is_last)))


def next_after(expression: str, zone: str, moment: datetime) -> datetime:
    """The first moment after `moment` at which the expression is due, in UTC. Raises CronError with a sentence."""
    plan, place = _read(expression), zone_of(zone)
    found = _by_the_clock(plan, place, moment) if plan.by_the_clock else _in_real_time(plan, place, moment)
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


def _by_the_clock(plan: _Plan, zone: ZoneInfo, moment: datetime) -> datetime | None:
    here = moment.astimezone(zone)
    readings = [time(hour, minute) for hour, minute in product(sorted(plan.hours), sorted(plan.minutes))]
    # A day earlier too: where a gap spans midnight, what it skipped is due on the next day.
    for day in _days(plan, here.date() - _DAY):
        for reading in readings:
            due = _reading(day, reading, zone)
            if due > moment:
                return due
    return None


def _reading(day: date, at: time, zone: ZoneInfo) -> datetime:
    """The first moment at which the clock shows that, or, where it never does, the first after the gap."""
    told = datetime.combine(day, at, zone)
    due = told.astimezone(UTC)
    if due.astimezone(zone).replace(tzinfo=None) == told.replace(tzinfo=None):
        return due
    # Read with the offset from before the gap it comes out as far behind it as it lies within it; so go back.
    while (due - _MINUTE).astimezone(zone).replace(tzinfo=None) > told.replace(tzinfo=None):
        due -= _MINUTE
    return due


def _in_real_time(plan: _Plan, zone: ZoneInfo, moment: datetime) -> datetime | None:
    begin = moment.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
    for day in _days(plan, begin.astimezone(zone).date() - _DAY):
        at = max(begin, datetime.combine(day, time(), zone).astimezone(UTC))
        end = datetime.combine(day + _DAY, time(), zone).astimezone(UTC)
        while at < end:
            here = at.astimezone(zone)
            if here.minute in plan.minutes and here.hour in plan.hours and here.date() == day:
                return at
            at += _MINUTE
    return None


def _days(plan: _Plan, first: date) -> Iterator[date]:
    """The days on which the plan holds, from `first` on."""
    return (day for day in (first + timedelta(days=n) for n in range(YEARS * 366)) if plan.holds_on(day))


@lru_cache(maxsize=256)
def _read(expression: str) -> _Plan:
    parts = expression.upper().split()
    if len(parts) != len(_FIELDS) or len(expression) > MAX_EXPRESSION:
        raise CronError("A cron expression has five fields: minute, hour, day of the month, month, day of the week.")
    minutes, hours, months = (_numbers(parts[place], _FIELDS[place]) for place in (0, 1, 3))
    return _Plan(
        minutes,
        hours,
        _days_of_month(parts[2]),
        months,
        _weekdays(parts[4]),
        both_days=parts[2].startswith("*") or parts[4].startswith("*"),
        by_the_clock=not parts[0].startswith("*") and not parts[1].startswith("*"),
    )


def _days_of_month(part: str) -> frozenset[int]:
    found: set[int] = set()
    for term in part.split(","):
        special = {"L": _LAST, "LW": _LAST_WEEKDAY}.get(term)
        found |= {special} if special is not None else _term(term, _FIELDS[2])
    return frozenset(found)


def _weekdays(part: str) -> frozenset[tuple[int, int]]:
    field = _FIELDS[4]
    found: set[tuple[int, int]] = set()
    for term in part.split(","):
        name, mark, nth = term.partition("#")
        if mark:
            if not (nth.isascii() and nth.isdigit() and 1 <= int(nth) <= 5):
                raise _wrong(term, field)
            found.add((_number(name, field) % 7, int(nth)))
        elif term.endswith("L") and len(term) > 1:
            found.add((_number(term[:-1], field) % 7, -1))
        else:
            found |= {(day % 7, 0) for day in _term(term, field)}
    return frozenset(found)


def _numbers(part: str, field: _Field) -> frozenset[int]:
    found: set[int] = set()
    for term in part.split(","):
        found |= _term(term, field)
    return frozenset(found)


def _term(term: str, field: _Field) -> set[int]:
    """One part of a list: `*`, `5`, `1-5`, each of them with `/step`; `5/10` goes on from 5 to the end."""
    body, slash, told = term.partition("/")
    step = int(told) if told.isascii() and told.isdigit() and len(told) < 4 else 0
    if slash and step < 1:
        raise _wrong(term, field)
    first, dash, last = body.partition("-")
    if body == "*":
        low, high = field.least, field.most
    elif dash:
        low, high = _number(first, field), _number(last, field)
    else:
        low = _number(body, field)
        high = field.most if slash else low
    if low > high:
        raise _wrong(term, field)
    return set(range(low, high + 1, step or 1))


def _number(told: str, field: _Field) -> int:
    if told in field.names:
        return field.names.index(told) + field.least
    value = int(told) if told.isascii() and told.isdigit() and len(told) < 4 else -1
    if not field.least <= value <= field.most:
        raise _wrong(told, field)
    return value


def _wrong(term: str, field: _Field) -> CronError:
    names = f", or {field.names[0].lower()} to {field.names[-1].lower()}" if field.names else ""
    words = f"“{term[:20]}” is no {field.name}. It takes {field.least} to {field.most}{names}"
    return CronError(f"{words}, and lists, ranges and steps of them.")

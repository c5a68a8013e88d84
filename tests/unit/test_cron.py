"""When a cron expression is due: through both changes of the clock, and what cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from boards.flows import cron

COPENHAGEN = "Europe/Copenhagen"
BEFORE_OCTOBER = datetime(2026, 10, 24, 12, tzinfo=UTC)
BEFORE_MARCH = datetime(2027, 3, 27, 12, tzinfo=UTC)


def times(expression: str, moment: datetime, count: int = 3, zone: str = COPENHAGEN) -> list[str]:
    return [f"{each:%d %b %H:%M%z}" for each in cron.next_times(expression, zone, moment, count)]


def test_daily_half_past_two_is_due_once_on_the_day_of_the_repeated_hour() -> None:
    assert times("30 2 * * *", BEFORE_OCTOBER) == ["25 Oct 02:30+0200", "26 Oct 02:30+0100", "27 Oct 02:30+0100"]


def test_daily_half_past_two_is_due_once_on_the_day_of_the_missing_hour_right_after_the_gap() -> None:
    assert times("30 2 * * *", BEFORE_MARCH) == ["28 Mar 03:00+0200", "29 Mar 02:30+0200", "30 Mar 02:30+0200"]


def test_between_the_two_equal_readings_it_is_not_due_again() -> None:
    second = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)  # 02:10 for the second time
    assert times("30 2 * * *", second, 1) == ["26 Oct 02:30+0100"]


def test_two_readings_in_the_missing_hour_are_due_once() -> None:
    assert times("0,30 2 * * *", BEFORE_MARCH, 2) == ["28 Mar 03:00+0200", "29 Mar 02:00+0200"]


def test_a_gap_at_midnight_is_due_on_the_day_after_it() -> None:
    moment = datetime(2026, 9, 5, 12, tzinfo=UTC)
    assert times("30 0 * * *", moment, 2, "America/Santiago") == ["06 Sep 01:00-0300", "07 Sep 00:30-0300"]


def test_stars_run_in_real_time_through_the_repeated_and_the_missing_hour() -> None:
    assert times("*/30 * * * *", datetime(2026, 10, 24, 23, 50, tzinfo=UTC), 5) == [
        "25 Oct 02:00+0200",
        "25 Oct 02:30+0200",
        "25 Oct 02:00+0100",
        "25 Oct 02:30+0100",
        "25 Oct 03:00+0100",
    ]
    assert times("30 * * * *", datetime(2027, 3, 28, 0, 0, tzinfo=UTC), 2) == ["28 Mar 01:30+0100", "28 Mar 03:30+0200"]


def test_a_star_for_the_minute_alone_skips_the_missing_hour() -> None:
    assert times("*/30 2 * * *", BEFORE_MARCH, 1) == ["29 Mar 02:00+0200"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 * * mon-fri", ["15 Jan 09:00+0000", "18 Jan 09:00+0000"]),
        ("0 9 1 * mon", ["18 Jan 09:00+0000", "25 Jan 09:00+0000", "01 Feb 09:00+0000"]),  # either
        ("0 9 */2 * mon", ["25 Jan 09:00+0000", "01 Feb 09:00+0000"]),  # both, since one begins with a star
        ("0 9 L * *", ["31 Jan 09:00+0000", "28 Feb 09:00+0000"]),
        ("0 9 LW * *", ["29 Jan 09:00+0000", "26 Feb 09:00+0000"]),
        ("0 9 * * 5#2", ["12 Feb 09:00+0000", "12 Mar 09:00+0000"]),
        ("0 9 * * 5L", ["29 Jan 09:00+0000", "26 Feb 09:00+0000"]),
        ("0 9 * * 7", ["17 Jan 09:00+0000"]),
        ("10/20 9-10 15 1,3 *", ["15 Jan 09:10+0000", "15 Jan 09:30+0000", "15 Jan 09:50+0000", "15 Jan 10:10+0000"]),
        ("0 0 29 FEB *", ["29 Feb 00:00+0000"]),
    ],
)
def test_what_the_fields_mean(expression: str, expected: list[str]) -> None:
    moment = datetime(2027, 1, 15, 8, 30, 20, tzinfo=UTC)  # a Friday
    assert times(expression, moment, len(expected), "UTC") == expected


def test_the_moment_itself_is_not_after_itself() -> None:
    assert times("0 9 * * *", datetime(2027, 1, 15, 9, tzinfo=UTC), 1, "UTC") == ["16 Jan 09:00+0000"]
    assert times("* * * * *", datetime(2027, 1, 15, 9, 0, 1, tzinfo=UTC), 1, "UTC") == ["15 Jan 09:01+0000"]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* " * 60, "five fields"),
        ("60 * * * *", "“60” is no minute. It takes 0 to 59"),
        ("5-1 * * * *", "no minute"),
        ("*/0 * * * *", "no minute"),
        ("*/x * * * *", "no minute"),
        ("1,,2 * * * *", "no minute"),
        ("٣ * * * *", "no minute"),
        ("0 24 * * *", "no hour"),
        ("0 0 0 * *", "no day of the month"),
        ("0 0 * 13 *", "“13” is no month. It takes 1 to 12, or jan to dec"),
        ("0 0 * * 1#6", "no day of the week"),
        ("0 0 * * funday", "no day of the week"),
        ("0 0 30 2 *", "“30” is no day of the month"),
    ],
)
def test_what_cannot_be_read_says_why(expression: str, words: str) -> None:
    with pytest.raises(cron.CronError, match=words):
        cron.next_after(expression, "UTC", BEFORE_MARCH)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "\0"])
def test_an_unknown_zone_says_so(zone: str) -> None:
    with pytest.raises(cron.CronError, match="There is no time zone"):
        cron.next_after("* * * * *", zone, BEFORE_MARCH)

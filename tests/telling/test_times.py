"""When a message goes out: digests and quiet hours by the member's own clock, also when it is set back or forward."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from boards.telling.times import BURST, FOLD, Rhythm, goes_out_at, next_digest, quiet_until, zone_of

CPH = "Europe/Copenhagen"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def quiet(begins: str, ends: str, zone: str = CPH) -> Rhythm:
    return Rhythm(zone, quiet_from=time.fromisoformat(begins), quiet_to=time.fromisoformat(ends))


@pytest.mark.parametrize(
    ("hours", "now", "ends"),
    [
        # An ordinary night: 22:00 to 07:00 is 20:00 to 05:00 UTC in summer.
        (("22:00", "07:00"), "2026-07-01 19:59:59", None),
        (("22:00", "07:00"), "2026-07-01 20:00", "2026-07-02 05:00"),
        (("22:00", "07:00"), "2026-07-02 04:59:59", "2026-07-02 05:00"),
        (("22:00", "07:00"), "2026-07-02 05:00", None),
        # Within one day.
        (("12:00", "13:00"), "2026-07-01 10:30", "2026-07-01 11:00"),
        (("12:00", "13:00"), "2026-07-01 11:00", None),
        # The night of 25 October 2026 has an hour more: 22:00 summer time to 07:00 winter time.
        (("22:00", "07:00"), "2026-10-24 20:00", "2026-10-25 06:00"),
        (("22:00", "07:00"), "2026-10-25 05:30", "2026-10-25 06:00"),
        # An end that the clock shows twice is the second one, and nothing goes out in between.
        (("22:00", "02:30"), "2026-10-25 00:29", "2026-10-25 01:30"),
        (("22:00", "02:30"), "2026-10-25 00:45", "2026-10-25 01:30"),
        (("22:00", "02:30"), "2026-10-25 01:29", "2026-10-25 01:30"),
        (("22:00", "02:30"), "2026-10-25 01:30", None),
        # A beginning that it shows twice is the first one.
        (("02:30", "04:00"), "2026-10-25 00:29", None),
        (("02:30", "04:00"), "2026-10-25 00:30", "2026-10-25 03:00"),
        # The night of 28 March 2027 has an hour less; an end that is skipped is an hour later by the clock.
        (("22:00", "07:00"), "2027-03-27 21:00", "2027-03-28 05:00"),
        (("22:00", "02:30"), "2027-03-28 00:45", "2027-03-28 01:30"),
        (("22:00", "02:30"), "2027-03-28 01:30", None),
        # Equal ends are no quiet hours.
        (("08:00", "08:00"), "2026-07-01 06:30", None),
    ],
)
def test_quiet_hours(hours: tuple[str, str], now: str, ends: str | None) -> None:
    assert quiet_until(at(now), quiet(*hours)) == (at(ends) if ends else None)


def test_without_quiet_hours_no_moment_is_quiet() -> None:
    assert quiet_until(at("2026-07-01 01:00"), Rhythm(CPH)) is None


@pytest.mark.parametrize(
    ("now", "goes"),
    [
        ("2026-10-24 00:00", "2026-10-24 00:30"),
        ("2026-10-24 00:30", "2026-10-25 00:30"),
        # 02:30 twice: the first is the digest of the date, the second is none.
        ("2026-10-25 00:30", "2026-10-26 01:30"),
        ("2026-10-25 01:30", "2026-10-26 01:30"),
        # 02:30 not at all: the moment is moved on by the missing hour.
        ("2027-03-27 01:30", "2027-03-28 01:30"),
        ("2027-03-28 01:30", "2027-03-29 00:30"),
    ],
)
def test_a_daily_digest_at_half_past_two_goes_out_once_for_each_date(now: str, goes: str) -> None:
    assert next_digest(at(now), Rhythm(CPH, "daily", time(2, 30))) == at(goes)


def test_a_year_of_daily_digests_has_one_for_each_date() -> None:
    it, now = Rhythm(CPH, "daily", time(2, 30)), at("2026-05-31 12:00")
    dates = []
    for _ in range(365):
        now = next_digest(now, it)
        dates.append(now.astimezone(zone_of(CPH)).date())
    assert len(set(dates)) == 365
    assert dates == sorted(dates)
    assert (dates[-1] - dates[0]).days == 364


@pytest.mark.parametrize(
    ("zone", "now", "goes"),
    [
        ("UTC", "2026-07-01 09:15:01", "2026-07-01 10:00"),
        ("UTC", "2026-07-01 09:00", "2026-07-01 10:00"),
        ("Asia/Kolkata", "2026-07-01 09:15", "2026-07-01 09:30"),
    ],
)
def test_an_hourly_digest_goes_out_at_the_full_hour_of_the_zone(zone: str, now: str, goes: str) -> None:
    assert next_digest(at(now), Rhythm(zone, "hourly")) == at(goes)


def test_at_once_leaves_a_breath_for_what_comes_together() -> None:
    now = at("2026-07-01 12:00")
    assert goes_out_at(now, Rhythm(), []) == now + FOLD


def test_after_a_burst_the_rest_of_the_minute_is_one_message() -> None:
    now = at("2026-07-01 12:00")
    sent = [now - timedelta(seconds=10 * n) for n in range(1, BURST + 1)]
    assert goes_out_at(now, Rhythm(), sent) == sent[0] + timedelta(minutes=1)
    assert goes_out_at(now, Rhythm(), sent[:-1]) == now + FOLD


def test_what_would_go_out_in_quiet_hours_goes_out_when_they_end() -> None:
    it = Rhythm(CPH, "daily", time(23), time(22), time(7))
    assert goes_out_at(at("2026-07-01 12:00"), it, []) == at("2026-07-02 05:00")
    assert goes_out_at(at("2026-07-01 21:00"), quiet("22:00", "07:00"), []) == at("2026-07-02 05:00")


def test_a_zone_that_this_machine_does_not_know_is_utc() -> None:
    assert quiet_until(at("2026-07-01 22:30"), quiet("22:00", "23:00", "Atlantis/Poseidon")) == at("2026-07-01 23:00")

"""What a web process tells of itself: its sockets, its listener, and how long change notices are under way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from boards import live_notices, measured
from boards.live.hub import Hub
from boards.live_notices import Listener, Notice, changed
from boards.measured import Durations, Here
from boards.web.metric_families import exposition
from tests.live.browser import Browser, cookie_of, in_thread
from tests.live.cast import Cast
from tests.waiting import until


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    fresh = Here()
    monkeypatch.setattr("boards.live.hub.here", fresh)
    return fresh


def test_a_duration_counts_in_its_bucket_and_in_all_above() -> None:
    took = Durations((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 2.0):
        took.note(seconds)
    assert took.buckets == [("0.1", 2), ("1.0", 3), ("+Inf", 4)]
    assert took.seconds == pytest.approx(2.65)


def test_a_process_that_nobody_has_opened_a_page_of_says_nothing_of_its_listener() -> None:
    text = exposition(None, Here()).decode()
    assert "orchestra_sockets 0.0\n" in text
    assert "\norchestra_listener_up " not in text
    assert "# TYPE orchestra_listener_up gauge" in text
    assert measured.here.notices.bounds == tuple(sorted(measured.here.notices.bounds))


@pytest.mark.asyncio
async def test_sockets_are_counted_while_they_are_open(cast: Cast, here: Here, hub: Hub) -> None:
    cookie = await in_thread(lambda: cookie_of(cast.anna))
    one, other = (Browser(f"board={cast.board.pk}", cookie) for _ in range(2))
    assert await one.open()
    assert await other.open()
    assert here.sockets == 2
    assert "orchestra_sockets 2.0\n" in exposition(None, here).decode()
    await one.close()
    assert here.sockets == 1
    await other.close()
    assert here.sockets == 0


@pytest.mark.asyncio
async def test_the_listener_is_up_while_it_hears(cast: Cast, here: Here, hub: Hub) -> None:
    await in_thread(lambda: until(lambda: here.hears is not None and here.hears()))
    assert "orchestra_listener_up 1.0\n" in exposition(None, here).decode()
    await in_thread(hub.listener.stop)
    assert "orchestra_listener_up 0.0\n" in exposition(None, here).decode()


def test_each_notice_says_how_long_it_was_under_way_by_the_databases_clock(cast: Cast) -> None:
    took: list[float] = []
    heard: list[Notice] = []
    listener = Listener(took=took.append)
    listener.subscribe(heard.append)
    listener.start()
    try:
        until(lambda: heard, what="the listener hears")
        changed(cast.board.pk, task_key=1)
        until(lambda: took)
        assert 0 <= took[0] < 30
        with connection.cursor() as cursor:  # one that was sent a minute ago
            cursor.execute(
                """select pg_notify('orchestra',
                     '{"t":' || round(extract(epoch from clock_timestamp()) - 60, 6) || ',"p":1}')"""
            )
        until(lambda: len(took) == 2)
        assert 60 <= took[1] < 90
        until(lambda: len(heard) == 3)
    finally:
        listener.stop()
    assert heard[1:] == [Notice(cast.board.pk, frozenset({1})), Notice(None, process=True)]


def test_a_notice_of_an_older_process_is_heard_and_not_measured(cast: Cast) -> None:
    took: list[float] = []
    heard: list[Notice] = []
    listener = Listener(took=took.append)
    listener.subscribe(heard.append)
    listener.start()
    try:
        until(lambda: heard, what="the listener hears")
        with connection.cursor() as cursor:
            cursor.execute("select pg_notify('orchestra', %s)", [f'{{"b":{{"{cast.board.pk}":[[7],[]]}}}}'])
        until(lambda: len(heard) == 2)
    finally:
        listener.stop()
    assert heard[1] == Notice(cast.board.pk, frozenset({7}))
    assert took == []


def test_the_largest_notice_still_fits(cast: Cast) -> None:
    heard: list[Notice] = []
    listener = Listener()
    listener.subscribe(heard.append)
    listener.start()
    try:
        until(lambda: heard, what="the listener hears")
        live_notices._send('{"r":[' + ",".join(["1"] * 3_946) + "]}")
        until(lambda: len(heard) == 2)
    finally:
        listener.stop()
    assert not heard[1].gap

"""What open pages are told: each change once, folded per board, rendered once, filtered right."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now

from boards import live_notices, people, sweeping, tasks
from boards.live import hub as hub_module
from boards.live import reading, rendering
from boards.live.consumer import MOST_SAID, TOO_MANY
from boards.live.hub import Hub
from boards.models import RosterEntry, Task
from boards.queries import catchup
from boards.tasks import Filing
from boards.templatetags import orchestra
from tests.live.browser import PATIENCE, Browser, Told, cookie_of, in_thread
from tests.live.cast import Cast


async def test_a_page_hears_of_a_change_and_its_cursor_moves(hub: Hub, cast: Cast) -> None:
    page = await _page(cast, f"board={cast.board.pk}")
    before = page.cursor
    await in_thread(lambda: cast.file("a"))
    told = await page.until(lambda told: told.cards)
    assert told.cards == ["pending"]
    assert told.changed["tasks"] == ["a"]
    assert 'id="count-pending"' in told.html
    assert told.head["cursor"] != before


async def test_what_changed_between_render_and_subscribe_is_told(hub: Hub, cast: Cast) -> None:
    rendered = await in_thread(catchup.cursor)
    await in_thread(lambda: cast.file("a"))
    page = await _open(cast, f"board={cast.board.pk}")
    told = await page.live(rendered)
    assert told.cards == ["pending"]


async def test_a_page_that_missed_nothing_is_told_just_where_it_stands(hub: Hub, cast: Cast) -> None:
    page = await _open(cast, f"board={cast.board.pk}")
    told = await page.live(await in_thread(catchup.cursor))
    assert set(told.head) == {"cursor"}
    assert not told.html


async def test_a_page_hears_nothing_before_it_said_where_it_stands(hub: Hub, cast: Cast) -> None:
    late, page = await _open(cast, f"board={cast.board.pk}"), await _page(cast, f"board={cast.board.pk}")
    rendered = await in_thread(catchup.cursor)
    await in_thread(lambda: cast.file("a"))
    await page.until(lambda told: told.cards)
    told = await late.live(rendered)
    assert told.cards == ["pending"]
    assert [one.cards for one in late.told if one.cards] == [["pending"]]


async def test_a_page_without_a_cursor_of_ours_reads_its_lanes_again(hub: Hub, cast: Cast) -> None:
    page = await _open(cast, f"board={cast.board.pk}")
    told = await page.live("")
    assert told.head["refresh"] is True
    assert told.changed == {"all": True}


async def test_filtered_pages_stay_right(hub: Hub, cast: Cast) -> None:
    await in_thread(lambda: _roster(cast, "writer", "reader"))
    everything = await _page(cast, f"board={cast.board.pk}")
    writers = await _page(cast, f"board={cast.board.pk}&q=assignee%3Dwriter")
    task = await in_thread(lambda: cast.file("a", assignee="writer"))
    assert (await everything.until(_has_cards)).cards == ["pending"]
    assert (await writers.until(_has_cards)).cards == ["pending"]
    await in_thread(lambda: tasks.set_assignee(cast.chain, task, "reader"))
    assert (await everything.until(_has_cards)).cards == ["pending"]
    left = await writers.until(_has_cards)
    assert left.cards == ["gone"]
    assert '<span class="count" id="count-pending" hx-swap-oob="true">0</span>' in left.html
    await in_thread(lambda: tasks.set_assignee(cast.chain, task, "writer"))
    assert (await writers.until(_has_cards)).cards == ["pending"]


async def test_mine_is_judged_for_each_user(hub: Hub, cast: Cast) -> None:
    mine = await _page(cast, f"board={cast.board.pk}&q=mine%3D1")
    await in_thread(lambda: cast.file("a"))
    assert (await mine.until(_has_cards)).cards == ["pending"]


async def test_a_page_of_one_task_hears_of_that_task_alone(hub: Hub, cast: Cast) -> None:
    first, second = await in_thread(lambda: (cast.file("a"), cast.file("b")))
    page = await _page(cast, f"board={cast.board.pk}&task=a")
    await in_thread(lambda: tasks.set_priority(cast.chain, second, 1))
    await in_thread(lambda: tasks.set_priority(cast.chain, first, 1))
    told = await page.until(lambda told: told.changed.get("tasks"))
    assert told.changed == {"tasks": ["a"]}
    assert not told.html


async def test_the_home_page_and_the_count_are_told_in_a_word(hub: Hub, cast: Cast) -> None:
    page = await _page(cast, "home=1")
    await page.counts(0)
    await in_thread(lambda: cast.file("a", holds=[tasks.HoldFiling("confirm", "May it start?")]))
    told = await page.counts(1)
    assert told.changed == {"needs": True, "home": True}
    assert told.head["cursor"]


@pytest.mark.parametrize("row", ["lost", "silent"])
async def test_a_row_that_time_alone_brings_is_counted_when_the_sweeper_tells_of_it(
    hub: Hub, cast: Cast, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    """No write brings it, so no event does: a lease that has lapsed, a worker that has said nothing for long."""
    monkeypatch.setattr(sweeping, "_told_silent_runs", frozenset())
    task = await in_thread(lambda: cast.file("a"))
    wanted = [tasks.Wanted(cast.board.pk, {"": 1})]
    await in_thread(lambda: tasks.claim(wanted, limit=1, claimed_by={"drain": "d", "host": "here"}))
    page = await _page(cast, "home=1")
    await page.counts(0)
    while hub._hints._uncounted:
        await asyncio.sleep(0.01)
    past = Now() - timedelta(seconds=6) if row == "lost" else Now() - timedelta(minutes=6)
    field = "lease_until" if row == "lost" else "updated_at"
    await in_thread(lambda: Task.objects.filter(pk=task.pk).update(**{field: past}))
    await in_thread(sweeping.wake_lapsed if row == "lost" else sweeping.tell_silent_runs)
    told = await page.until(lambda told: told.head.get("needs" if row == "lost" else "reads") == 1)
    assert told.changed["needs"]
    assert await in_thread(sweeping.tell_silent_runs) == 0  # once


async def test_what_was_marked_as_seen_leaves_the_other_pages_of_its_reader(hub: Hub, cast: Cast) -> None:
    task = await in_thread(lambda: cast.file("a"))
    withdrawn = {"status": "cancelled", "withdrawn": {"reason": "timeout"}, "completed_at": Now()}
    await in_thread(lambda: Task.objects.filter(pk=task.pk).update(**withdrawn))
    page = await _page(cast, "home=1")
    if not any(told.head.get("reads") for told in page.told):
        await page.until(lambda told: told.head.get("reads") == 1)
    while hub._hints._uncounted:  # the page is counted once for its coming and once for its asking
        await asyncio.sleep(0.01)
    await in_thread(lambda: people.mark_seen(cast.chain, f"withdrawn-{task.pk}"))
    told = await page.until(lambda told: "reads" in told.head)
    assert told.head["reads"] == 0
    assert told.changed["needs"]


async def test_another_space_hears_nothing(hub: Hub, cast: Cast) -> None:
    page = await _page(cast, "home=1", cast.stranger)
    own = await _page(cast, f"board={cast.board.pk}")
    await page.counts(0)
    await in_thread(lambda: cast.file("a"))
    await own.until(_has_cards)
    await own.until(lambda told: told.changed.get("needs"))
    assert await page.socket.receive_nothing(0.05)


async def test_a_burst_is_folded_and_each_card_is_rendered_once(hub: Hub, cast: Cast) -> None:
    pages = [await _page(cast, f"board={cast.board.pk}") for _ in range(5)]
    began = time.monotonic()
    made = orchestra._rendered.cache_info().misses
    await in_thread(lambda: [cast.file(f"t{number}") for number in range(40)])
    for page in pages:
        seen: set[str] = set()
        while len(seen) < 40:
            seen |= set((await page.hear()).changed.get("tasks", ()))
        at_most = 1 + 5 * (time.monotonic() - began)  # the first at once, then five a second
        assert sum(bool(told.cards) for told in page.told) <= at_most
    assert orchestra._rendered.cache_info().misses == made + 40


async def test_200_rows_at_once_are_a_refresh_with_the_counts(hub: Hub, cast: Cast) -> None:
    page = await _page(cast, f"board={cast.board.pk}")
    await in_thread(lambda: _file_many(cast, 201))
    told = await page.until(lambda told: told.head.get("refresh"))
    assert not told.cards
    assert '<span class="count" id="count-pending" hx-swap-oob="true">201</span>' in told.html


async def test_a_change_whose_notice_was_lost_is_found_by_the_poll(hub: Hub, cast: Cast, settings: Any) -> None:
    settings.POLL_MS = 50
    page = await _page(cast, f"board={cast.board.pk}")
    await in_thread(lambda: _without_notice(lambda: cast.file("a")))
    assert (await page.until(_has_cards)).cards == ["pending"]


async def test_after_a_gap_of_the_listener_boards_with_open_pages_catch_up(hub: Hub, cast: Cast, settings: Any) -> None:
    settings.POLL_MS = 600_000
    page = await _page(cast, f"board={cast.board.pk}")
    await in_thread(lambda: _without_notice(lambda: cast.file("a")))
    hub._hear(live_notices.GAP)
    assert (await page.until(_has_cards)).cards == ["pending"]


async def test_a_hidden_page_hears_its_count_only_and_catches_up_when_seen(hub: Hub, cast: Cast) -> None:
    page, other = await _page(cast, f"board={cast.board.pk}"), await _page(cast, f"board={cast.board.pk}")
    await page.counts(0)
    known = page.cursor
    await page.say({"visible": False})
    await in_thread(lambda: cast.file("a", holds=[tasks.HoldFiling("confirm", "May it start?")]))
    await other.until(_has_cards)
    await page.counts(1)
    assert not page.told[-1].html
    assert (await page.live(known)).cards == ["pending"]


async def test_nonsense_from_a_page_changes_nothing(hub: Hub, cast: Cast) -> None:
    page = await _page(cast, f"board={cast.board.pk}")
    too_long = '{"cursor": "' + "1" * 17_000 + '"}'
    for words in ("{", "[]", "1", '"x"', "{}", '{"cursor": 5}', '{"retry": "a"}', "[" * 10_000, too_long):
        await page.say(words)
    await page.socket.send_to(bytes_data=b"\x00\x01")
    await in_thread(lambda: cast.file("a"))
    assert (await page.until(_has_cards)).cards == ["pending"]


async def test_a_page_that_floods_is_closed_and_heard_no_more(hub: Hub, cast: Cast) -> None:
    page = await _page(cast, f"board={cast.board.pk}")
    for _ in range(MOST_SAID + 50):
        await page.say({"visible": True})
    assert await page.closes() == TOO_MANY
    assert not hub.rooms.all


async def test_hostile_text_is_escaped_in_what_is_sent(hub: Hub, cast: Cast) -> None:
    page = await _page(cast, f"board={cast.board.pk}")
    await in_thread(lambda: cast.file("a", title='--><img src=x onerror=alert(1)><div hx-post="/x" hx-trigger=load>'))
    html = (await page.until(_has_cards)).html
    assert "<img" not in html
    assert "<div hx-post" not in html
    assert html.startswith("<article")


async def test_a_database_that_is_away_costs_time_and_nothing_else(
    hub: Hub, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "RETRY_S", 0.05)
    page = await _page(cast, f"board={cast.board.pk}")
    real, fails = hub_module.read, iter(range(3))

    def read(work: Any) -> Any:
        if next(fails, None) is not None:
            raise ConnectionError("the database is away")
        return real(work)

    monkeypatch.setattr(hub_module, "read", read)
    await in_thread(lambda: cast.file("a"))
    assert (await page.until(_has_cards)).cards == ["pending"]


async def test_a_board_that_cannot_be_shown_keeps_nobody_else_waiting(
    hub: Hub, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, home = await _page(cast, f"board={cast.board.pk}"), await _page(cast, "home=1")
    monkeypatch.setattr(reading, "lanes_html", lambda lanes, keys: 1 / 0)
    await in_thread(lambda: cast.file("a"))
    assert (await broken.until(lambda told: told.head.get("refresh"))).changed == {"all": True}
    assert (await home.until(lambda told: told.changed.get("home"))).head["cursor"]


async def test_there_is_a_beat_while_the_database_answers_and_none_when_it_does_not(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "BEAT_S", 0.02)
    hub = hub_module.current_hub()
    page = await _page(cast, f"board={cast.board.pk}")
    await page.until(lambda told: told.head.get("beat"))
    hub._read_at = float("-inf")
    monkeypatch.setattr(hub_module, "read", lambda work: 1 / 0)
    hub._woken.set()
    async with asyncio.timeout(PATIENCE):
        while not await page.socket.receive_nothing(0.2):
            await page.hear()
    await hub.stop()


async def test_a_server_that_stops_says_so(hub: Hub, cast: Cast) -> None:
    page = await _page(cast, f"board={cast.board.pk}")
    page.socket.future.cancel()
    output = await page.socket.output_queue.get()
    while output["type"] != "websocket.close":
        output = await page.socket.output_queue.get()
    assert output["code"] == 4012
    assert not hub.rooms.all


def test_a_message_is_a_comment_and_html_or_json_alone() -> None:
    assert rendering.message(needs=0, changed={}) == '{"needs": 0}'
    head = '{"cursor": "a:1:2:", "changed": {"tasks": ["a--b"]}}'
    assert rendering.message("<p></p>", cursor="a:1:2:", changed={"tasks": ["a--b"]}) == f"<!--{head}--><p></p>"
    assert json.loads(rendering.BEAT) == {"beat": 1}


async def _open(cast: Cast, query: str, user: Any = None) -> Browser:
    page = Browser(query, await in_thread(lambda: cookie_of(user or cast.anna)))
    assert await page.open()
    return page


async def _page(cast: Cast, query: str, user: Any = None) -> Browser:
    """A page that is live."""
    page = await _open(cast, query, user)
    await page.live(await in_thread(catchup.cursor))
    return page


def _has_cards(told: Told) -> bool:
    return bool(told.cards)


def _roster(cast: Cast, *names: str) -> None:
    for name in names:
        RosterEntry.objects.create(board=cast.board, name=name, kind=RosterEntry.Kind.PULL)


def _file_many(cast: Cast, count: int) -> list[Task]:
    return tasks.file_tasks(cast.chain, cast.board, [Filing(goal=f"Do {n}", id=f"t{n}") for n in range(count)])


def _without_notice(work: Callable[[], object]) -> None:
    """As when the process dies between the commit and its notice."""
    with transaction.atomic():
        work()
        transaction.get_connection().run_on_commit.clear()

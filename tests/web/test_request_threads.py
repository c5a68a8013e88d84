"""A page is made in a thread that has its connection already, and never in one that is still at work."""

from __future__ import annotations

import asyncio
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from orchestra import request_threads
from orchestra.request_threads import RequestThreads

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("transactional_db")]


def _backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


async def _page(threads: RequestThreads) -> int:
    async with threads.lent():
        return await sync_to_async(_backend)()


async def _until_idle(threads: RequestThreads, count: int) -> None:
    while len(threads._idle) != count:
        await asyncio.sleep(0.001)


async def _end(threads: RequestThreads) -> None:
    """Give the connections back before the test's database is emptied."""
    for _, thread in threads._idle:
        request_threads._end(thread)
        await asyncio.to_thread(thread.shutdown)


async def test_the_next_page_finds_the_connection_of_the_last_one_open() -> None:
    threads = RequestThreads()
    first = await _page(threads)
    await _until_idle(threads, 1)
    assert await _page(threads) == first
    await _until_idle(threads, 1)
    await _end(threads)


async def test_pages_that_are_made_at_the_same_time_have_a_thread_each() -> None:
    threads, both = RequestThreads(), threading.Barrier(2, timeout=60)

    async def page() -> int:
        async with threads.lent():
            await sync_to_async(both.wait)()  # neither goes on before the other is at work too
            return await sync_to_async(_backend)()

    one, other = await asyncio.gather(page(), page())
    assert one != other
    await _until_idle(threads, 2)
    await _end(threads)


async def test_a_thread_whose_browser_has_gone_is_lent_again_only_when_its_view_is_done() -> None:
    threads, at_work, may_end = RequestThreads(), threading.Event(), threading.Event()

    def view() -> None:
        at_work.set()
        may_end.wait(60)

    async def page() -> None:
        async with threads.lent():
            await sync_to_async(view)()

    gone = asyncio.create_task(page())
    await asyncio.to_thread(at_work.wait, 10)
    gone.cancel()
    await asyncio.wait([gone])
    assert await _page(threads)  # in a thread of its own: this one would have to wait
    await _until_idle(threads, 1)
    may_end.set()
    await _until_idle(threads, 2)
    await _end(threads)


async def test_a_connection_that_the_server_ended_is_replaced() -> None:
    threads = RequestThreads()
    first = await _page(threads)
    await _until_idle(threads, 1)

    def terminate() -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(%s, 5000)", [first])
        connection.close()

    await asyncio.to_thread(terminate)
    assert await _page(threads) != first
    await _until_idle(threads, 1)
    await _end(threads)


async def test_of_many_threads_a_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "KEPT", 1)
    threads, three = RequestThreads(), threading.Barrier(3, timeout=60)

    async def page() -> None:
        async with threads.lent():
            await sync_to_async(three.wait)()
            await sync_to_async(_backend)()

    await asyncio.gather(page(), page(), page())
    await _until_idle(threads, 1)
    assert await _page(threads)
    await _until_idle(threads, 1)
    await _end(threads)


async def test_an_idle_thread_ends_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "KEPT_S", 0.01)
    threads = RequestThreads()
    first = await _page(threads)
    await _until_idle(threads, 1)
    await _until_idle(threads, 0)

    def is_open() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("select exists (select from pg_stat_activity where pid = %s)", [first])
            (found,) = cursor.fetchone()
        connection.close()
        return bool(found)

    async with asyncio.timeout(60):
        while await asyncio.to_thread(is_open):
            await asyncio.sleep(0.01)

"""The places of requests: so many are answered at once, since the database would refuse more connections.

One that only waits for something gives its place back meanwhile (`boards.api.waiting`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self


class Place:
    """One request's place among those of a loop: taken by `async with`, and left with it."""

    def __init__(self, room: asyncio.Semaphore) -> None:
        self._room, self._held = room, False

    async def __aenter__(self) -> Self:
        await self._take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    @contextlib.asynccontextmanager
    async def given_back(self) -> AsyncIterator[None]:
        """Without the place inside, and with one again after it."""
        self._leave()
        try:
            yield
        finally:
            await self._take()

    async def _take(self) -> None:
        await self._room.acquire()
        self._held = True

    def _leave(self) -> None:
        if self._held:
            self._held = False
            self._room.release()

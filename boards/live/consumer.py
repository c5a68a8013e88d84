"""The socket of one page: who may open it, and what it may say (spec: 08 section 1; 09 section 3).

It only listens: a page says where it stands and whether it is seen, and decides nothing. Origin, login and the right
on what its address names are checked before it is accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any, Final

from channels.exceptions import DenyConnection
from channels.generic.websocket import AsyncWebsocketConsumer

from boards.live import admission
from boards.live.hub import Hub, current_hub
from boards.live.origins import is_own_page
from boards.queries.catchup import LONGEST
from boards.queries.needs_you import Counts
from boards.queries.subscriptions import Subscription

RESTART: Final = 4012
TOO_MANY: Final = 4008
MOST_SAID: Final = 100  # messages of a page in ten seconds; an honest one says a handful


class LiveConsumer(AsyncWebsocketConsumer):
    """Close codes: 4012 the server restarts, 4401 signed out, 4403 no right, 4008 a page that says too much."""

    hub: Hub
    subscription: Subscription
    request: admission.Request
    told_count: Counts | None = None
    said: int = 0
    said_since: float = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:
            # daphne cancels its applications before it leaves; without a word the page would see a broken line.
            with contextlib.suppress(Exception):
                await send({"type": "websocket.close", "code": RESTART})
            raise
        finally:
            if hasattr(self, "hub"):
                self.hub.leave(self)

    async def connect(self) -> None:
        if not is_own_page(self.scope):
            raise DenyConnection
        hub, self.request = current_hub(), admission.asked(self.scope)
        answer = await hub.admit(self.request)
        if isinstance(answer, int):
            raise DenyConnection
        self.hub, self.subscription = hub, answer
        await self.accept()
        hub.join(self)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """`{"cursor": "…"}`: this is where I stand, tell me what I missed. `{"visible": false}`: nobody looks."""
        if self._says_too_much():
            return
        if self.said == MOST_SAID:
            self.hub.leave(self)
            await self.close(code=TOO_MANY)
            return
        told = _told(text_data)
        cursor = told.get("cursor")
        if isinstance(cursor, str):
            self.hub.ask(self, cursor)
        elif told.get("visible") is False:
            self.hub.hide(self)

    def _says_too_much(self) -> bool:
        """Count a message: those of ten seconds together, and none is heard once there were too many."""
        now = time.monotonic()
        if self.said < MOST_SAID and now - self.said_since > 10:
            self.said, self.said_since = 0, now
        self.said += 1
        return self.said > MOST_SAID

    async def tell(self, text: str) -> None:
        # Past the consumer's own `send`, which would only wrap it again.
        await self.base_send({"type": "websocket.send", "text": text})

    async def end(self, code: int) -> None:
        await self.close(code=code)


def _told(text: str | None) -> dict[str, Any]:
    """What a page said, empty where it is too long or none of ours."""
    if not text or len(text) > LONGEST + 100:
        return {}
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}

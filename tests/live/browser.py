"""A page's side of the socket, without a browser: opens it as one would, and reads what it is told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.db import connection
from django.test import Client

from boards.live.routing import sockets
from boards.models import User

Answer = TypeVar("Answer")
HOST = "testserver"
PATIENCE = 60.0


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """Database work of a test, on a connection that is closed afterwards."""

    def closing() -> Answer:
        try:
            return work()
        finally:
            connection.close()

    return await sync_to_async(closing, thread_sensitive=False)()


def cookie_of(user: User, space_id: int | None = None) -> str:
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    if space_id is not None:
        session = client.session
        session["space"] = space_id
        session.save()
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@dataclass
class Told:
    """One message: its head, and the HTML behind it."""

    head: dict[str, Any]
    html: str = ""

    @property
    def changed(self) -> dict[str, Any]:
        return self.head.get("changed", {})

    @property
    def cards(self) -> list[str]:
        """The lanes of the cards in it, or "gone", in order."""
        return re.findall(r'<article[^>]* data-lane="(\w+)"', self.html) + ["gone"] * self.html.count('="delete"')


@dataclass
class Browser:
    query: str
    cookie: str = ""
    origin: str | None = f"http://{HOST}"
    host: str = HOST
    told: list[Told] = field(default_factory=list)
    cursor: str = ""
    needs: int | None = None

    async def open(self) -> bool:
        """Whether the handshake was accepted."""
        headers = [(b"host", self.host.encode())]
        if self.origin is not None:
            headers.append((b"origin", self.origin.encode()))
        if self.cookie:
            headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={self.cookie}".encode()))
        self.socket = WebsocketCommunicator(sockets(), f"/ws/?{self.query}", headers)
        accepted, _ = await self.socket.connect(timeout=PATIENCE)
        return accepted

    async def live(self, cursor: str) -> Told:
        """Ask from `cursor` and read the answer, from which on the page is live."""
        await self.say({"cursor": cursor})
        return await self.until(lambda told: "cursor" in told.head)

    async def say(self, words: Any) -> None:
        await self.socket.send_to(text_data=words if isinstance(words, str) else json.dumps(words))

    async def hear(self) -> Told:
        """The next message."""
        text = await self.socket.receive_from(timeout=PATIENCE)
        found = re.fullmatch(r"<!--(.*?)-->(.*)", text, re.DOTALL)
        told = Told(json.loads(found[1]), found[2]) if found else Told(json.loads(text))
        self.cursor = told.head.get("cursor", self.cursor)
        self.needs = told.head.get("needs", self.needs)
        self.told.append(told)
        return told

    async def until(self, wanted: Callable[[Told], Any]) -> Told:
        async with asyncio.timeout(PATIENCE):
            while not wanted(told := await self.hear()):
                pass
        return told

    async def counts(self, needs: int) -> Told:
        """The message after which the page shows this count."""
        if self.needs != needs:
            await self.until(lambda _: self.needs == needs)
        return self.told[-1]

    async def closes(self) -> int:
        """The code with which the server closes it."""
        async with asyncio.timeout(PATIENCE):
            while (output := await self.socket.receive_output(PATIENCE))["type"] != "websocket.close":
                pass
        return int(output["code"])

    async def close(self) -> None:
        await self.socket.disconnect(timeout=PATIENCE)

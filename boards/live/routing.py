"""Which sockets there are: one, for every page."""

from __future__ import annotations

from typing import Any

from channels.routing import URLRouter
from django.urls import path

from boards.live.consumer import LiveConsumer


def sockets() -> Any:
    """The ASGI application for sockets; any other address is refused before it is accepted."""
    router = URLRouter([path("ws/", LiveConsumer.as_asgi())])

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/ws/":
            await router(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    return application

"""The server's entry: `daphne orchestra.asgi:application`. Requests go to Django, sockets to `boards.live`.

The listener starts with the first socket (`boards.live.hub`): this module is loaded before a loop runs.
"""

import asyncio
import os
from typing import Any, Final

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

from orchestra import collector, embedded

WAITS: Final = "/api/v1/work/claim"
AT_ONCE: Final = 32  # requests, each with a connection; PostgreSQL admits 100 unless it was told otherwise

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orchestra.settings")
embedded.ensure()
pages = get_asgi_application()

from boards.api import waiting  # noqa: E402 (models can be imported once Django is set up)
from boards.live.routing import sockets  # noqa: E402 (models can be imported once Django is set up)
from orchestra.request_threads import RequestThreads  # noqa: E402

_room = asyncio.Semaphore(AT_ONCE)
_threads = RequestThreads()


async def in_turn(scope: Any, receive: Any, send: Any) -> None:
    """The pages; requests beyond `AT_ONCE` wait here, since the database would refuse them."""
    if scope["path"] == "/healthz":  # says that the process lives, also where the others wait for a database
        await pages(scope, receive, send)
        return
    async with _room, _threads.lent():
        await pages(scope, receive, send)


async def requests(scope: Any, receive: Any, send: Any) -> None:
    """Each in its turn; a call that may wait has several of them, and holds nothing between two."""
    if scope["path"] == WAITS:
        await waiting.in_turns(in_turn, scope, receive, send)
    else:
        await in_turn(scope, receive, send)


application = ProtocolTypeRouter({"http": requests, "websocket": sockets()})

collector.spare()

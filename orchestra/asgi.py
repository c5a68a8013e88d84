"""The server's entry: `daphne orchestra.asgi:application`. Requests go to Django, sockets to `boards.live`.

The listener starts with the first socket (`boards.live.hub`): this module is loaded before a loop runs.
"""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

from orchestra import embedded

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orchestra.settings")
embedded.ensure()
pages = get_asgi_application()

from boards.live.routing import sockets  # noqa: E402 (models can be imported once Django is set up)

application = ProtocolTypeRouter({"http": pages, "websocket": sockets()})

"""The fan-out's own thread keeps its connection, also where requests keep none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, connections

from boards.live.threads import DatabaseThread


@pytest.fixture
def requests_keep_none() -> Iterator[None]:
    settings = connections.settings["default"]
    before, settings["CONN_MAX_AGE"] = settings["CONN_MAX_AGE"], 0
    yield
    settings["CONN_MAX_AGE"] = before


def _backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


@pytest.mark.asyncio
async def test_its_connection_is_kept_between_calls(transactional_db: None, requests_keep_none: None) -> None:
    thread = DatabaseThread("test")
    try:
        assert await thread.run(_backend) == await thread.run(_backend)
    finally:
        thread.stop()

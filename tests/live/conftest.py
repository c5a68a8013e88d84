"""The cast of the live tests, and a listener that remembers what it heard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from boards import live_notices
from boards.live.hub import Hub, current_hub
from boards.live_notices import Listener, Notice
from boards.models import Board, Member, Role, Space, User
from boards.queries import catchup
from tests.live.cast import Cast
from tests.waiting import until


@pytest.fixture
def cast(transactional_db: None) -> Iterator[Cast]:
    catchup.forget_epoch()
    space = Space.objects.create(slug="halyard", name="Halyard")
    other = Space.objects.create(slug="elsewhere", name="Elsewhere")
    anna = User.objects.create_user("anna", first_name="Anna")
    stranger = User.objects.create_user("stranger")
    Member.objects.create(space=space, user=anna, role=Role.MEMBER)
    Member.objects.create(space=other, user=stranger, role=Role.OPERATOR)
    board = Board.objects.create(space=space, slug="release", name="Release desk")
    elsewhere = Board.objects.create(space=other, slug="other", name="Other")
    yield Cast(space, board, anna, stranger, elsewhere)
    live_notices.close()
    catchup.forget_epoch()


class Heard:
    """What a listener told, in order."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.notices: list[Notice] = []
        listener.subscribe(self.notices.append)

    @property
    def gaps(self) -> int:
        return sum(notice.gap for notice in self.notices)

    @property
    def changes(self) -> list[Notice]:
        return [notice for notice in self.notices if not notice.gap]

    @property
    def tasks(self) -> set[int]:
        return {key for notice in self.changes for key in notice.task_keys}


@pytest.fixture
def heard(cast: Cast) -> Iterator[Heard]:
    listener = Listener()
    heard = Heard(listener)
    listener.start()
    until(lambda: heard.gaps, what="the listener hears")
    yield heard
    listener.stop()


@pytest_asyncio.fixture
async def hub(cast: Cast) -> AsyncIterator[Hub]:
    hub = current_hub()
    yield hub
    await hub.stop()

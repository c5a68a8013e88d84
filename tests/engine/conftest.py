"""The cast of the engine's tests: a space, its board with two agents, Anna who files, and the writer that works."""

from __future__ import annotations

import pytest

from boards.actors import Chain
from boards.models import Board, Space
from tests import cast


@pytest.fixture
def space() -> Space:
    return cast.make_space()


@pytest.fixture
def board(space: Space) -> Board:
    return cast.make_board(space)


@pytest.fixture
def anna(space: Space) -> Chain:
    return cast.chain_of(cast.make_member(space))


@pytest.fixture
def worker(board: Board) -> Chain:
    return cast.agent_chain(board)

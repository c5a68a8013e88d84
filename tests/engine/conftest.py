"""The engine tests' cast: a space, its board with two agents, Anna files, Olga operates, the writer works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from boards.actors import Chain
from boards.debts import kinds
from boards.models import Board, Role, Space
from tests import cast


@pytest.fixture
def space(db: None) -> Space:
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


@pytest.fixture
def olga(space: Space) -> Chain:
    return cast.chain_of(cast.make_member(space, "olga", Role.OPERATOR))


@pytest.fixture
def known_to_be_empty(board: Board) -> None:
    """What the planner knows of the tables is that they are empty, which is the worst to keep a plan from."""
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze")
        cursor.execute("discard plans")


@pytest.fixture
def payers() -> Iterator[dict[str, kinds.Payer]]:
    """The payers by kind; what a test changes is put back."""
    before = dict(kinds.PAYERS)
    yield kinds.PAYERS
    kinds.PAYERS.clear()
    kinds.PAYERS.update(before)

"""Fixtures for the flow tests. Each file that needs the database says so with its own mark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from boards.debts import kinds
from tests.flows.cast import Stage


@pytest.fixture
def stage() -> Stage:
    """A space with its people, a board and its agents."""
    return Stage()


@pytest.fixture
def payers() -> Iterator[dict[str, kinds.Payer]]:
    """The payers by kind; what a test changes is put back."""
    before = dict(kinds.PAYERS)
    yield kinds.PAYERS
    kinds.PAYERS.clear()
    kinds.PAYERS.update(before)

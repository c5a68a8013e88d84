"""Fixtures for the flow tests. Each file that needs the database says so with its own mark."""

from __future__ import annotations

import pytest

from tests.flows.cast import Stage


@pytest.fixture
def stage() -> Stage:
    """A space with its people, a board and its agents."""
    return Stage()

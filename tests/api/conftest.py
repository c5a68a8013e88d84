from __future__ import annotations

import pytest

from tests.api.cast import Desk


@pytest.fixture
def desk(db: None) -> Desk:
    return Desk()

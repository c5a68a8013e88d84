"""One of many that cannot be done keeps no other from it, and none of the reasons is lost."""

from __future__ import annotations

import pytest

from boards.each import each_by_itself


def test_all_are_done_and_every_reason_is_told(caplog: pytest.LogCaptureFixture) -> None:
    done = []

    def work(n: int) -> int:
        if n % 2:
            raise ValueError(f"no {n}")
        done.append(n)
        return 1

    with pytest.raises(ValueError, match="no 3"):
        each_by_itself([0, 1, 2, 3, 4], work)
    assert done == [0, 2, 4]
    assert "no 1" in caplog.text
    assert each_by_itself([0, 2], work) == 2

"""One of many that cannot be done keeps no other from it, and none of the reasons is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from boards.each import each_by_itself, many_at_once


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


def test_what_cannot_be_done_together_is_done_each_by_itself() -> None:
    batches: list[list[int]] = []

    def many(batch: Sequence[int]) -> int:
        batches.append(list(batch))
        if 3 in batch:
            raise ValueError("not together")
        return len(batch)

    def one(n: int) -> int:
        if n == 3:
            raise ValueError("no 3")
        batches.append([n])
        return 1

    with pytest.raises(ValueError, match="no 3"):
        many_at_once([0, 1, 2, 3, 4, 5, 6], 3, many, one)
    assert batches == [[0, 1, 2], [3, 4, 5], [4], [5], [6]]
    assert many_at_once([0, 1, 2, 4], 3, many, one) == 4

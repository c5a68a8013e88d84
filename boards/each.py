"""Does one thing for each of many, so that one which cannot be done keeps no other from it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def each_by_itself(items: Iterable[Item], work: Callable[[Item], int]) -> int:
    """The sum of what `work` answers. What it raises for one item is raised once all the others are done."""
    done, failed = 0, None
    for item in items:
        try:
            done += int(work(item))
        except Exception as error:
            failed = error
    if failed is not None:
        raise failed
    return done

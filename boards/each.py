"""Does one thing for each of many, so that one which cannot be done keeps no other from it. It only writes a log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

log = logging.getLogger(__name__)

Item = TypeVar("Item")


def each_by_itself(items: Iterable[Item], work: Callable[[Item], int]) -> int:
    """The sum of what `work` answers. What it raises for one item is raised once all the others are done; of several
    the last one, and the others are logged.
    """
    done, failed = 0, None
    for item in items:
        try:
            done += int(work(item))
        except Exception as error:
            if failed is not None:  # only the last one is raised, and none goes unsaid
                log.error("Could not be done, like others after it: %s", failed, exc_info=failed)
            failed = error
    if failed is not None:
        raise failed
    return done


def many_at_once(
    items: Sequence[Item], size: int, many: Callable[[Sequence[Item]], int], one: Callable[[Item], int]
) -> int:
    """`each_by_itself`, with `many` for up to `size` of them at a time, and `one` for those of which that failed."""

    def work(batch: Sequence[Item]) -> int:
        if len(batch) == 1:
            return int(one(batch[0]))
        try:
            return int(many(batch))
        except Exception as error:
            log.info("Not possible together, so each by itself: %r", error)
        return each_by_itself(batch, one)

    return each_by_itself([items[n : n + size] for n in range(0, len(items), size)], work)

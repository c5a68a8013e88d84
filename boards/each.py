"""Does one thing for each of many, so that one which cannot be done keeps no other from it. It only writes a log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
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

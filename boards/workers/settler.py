"""Writes endings in a thread with a connection of its own, so that the next tasks are claimed and started meanwhile.

One batch at a time: what ends during a write is the next one. Its answers come back through `told`, and the drain's
own thread alone keeps state (spec: 02 section 7, 03 section 3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final

from django.db import connection

from boards.workers.databases import AWAY, let_go
from boards.workers.runner import Run
from boards.workers.scribe import Scribe
from boards.workers.settling import Settled, settle

log = logging.getLogger(__name__)

LEAVE_S: Final = 30.0  # how long a batch may still take that is being written when the drain leaves

# What a batch came to: how its runs were settled, or what the write of it raised.
Answer = list[Settled] | Exception


class Settler(threading.Thread):
    """`write` a batch; `told(answer)` is called in this thread once it is written, or could not be."""

    def __init__(self, scribe: Scribe, told: Callable[[Answer], None]) -> None:
        super().__init__(name="settler", daemon=True)
        self._scribe, self._told = scribe, told
        self._batches: SimpleQueue[Sequence[Run] | None] = SimpleQueue()

    def write(self, batch: Sequence[Run]) -> None:
        self._batches.put(batch)

    def close(self) -> None:
        """End after the batch that is being written; what it came to is told by then."""
        self._batches.put(None)
        self.join(LEAVE_S)
        if self.is_alive():
            log.error("The write of the last endings is stuck; their tasks are left to their leases")

    def run(self) -> None:
        try:
            for batch in iter(self._batches.get, None):
                self._told(self._write(batch))
        finally:
            connection.close()

    def _write(self, batch: Sequence[Run]) -> Answer:
        try:
            return settle(batch, self._scribe)
        except AWAY as error:
            let_go()
            return error
        except Exception as error:
            return error

"""Stores transcript lines in batches: a line is shown within a tenth of a second, and a chatty program costs
few inserts.

It keeps the order of what it was given, holds a bounded number of lines (whoever says more waits, so a
program is slowed down and not cut), and outlives a database that is away for a while.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from dataclasses import replace
from typing import Final

from django.db import connection

from boards import tasks
from boards.models import TranscriptItem
from boards.tasks import Line
from boards.workers.databases import AWAY, let_go

log = logging.getLogger(__name__)

STATUS: Final = TranscriptItem.Kind.STATUS
EVERY_S: Final = 0.1
BATCH: Final = 1_000
MOST_WAITING: Final = 5_000
MOST_CHARACTERS: Final = 4_000_000
PATIENCE_S: Final = 120.0  # after which what cannot be stored is dropped, and the log says so


class Scribe(threading.Thread):
    """`put` from any thread; `flush` stores what is there now, in the caller's thread."""

    def __init__(self) -> None:
        super().__init__(name="scribe", daemon=True)
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._lines: deque[Line] = deque()
        self._size = 0
        self._dropped: Counter[Line] = Counter()  # what their transcripts are told: how many lines are missing
        self._closing = False

    def put(self, line: Line) -> None:
        """Keep a line for the next batch; waits while too many are waiting."""
        with self._changed:
            if not self._changed.wait_for(self._has_room, PATIENCE_S):
                log.error("A transcript line of task %s was dropped: the database is away", line.task_key)
                self._dropped[replace(line, text="", kind=STATUS, data=None)] += 1
                return
            self._lines.append(line)
            self._size += len(line.text)
            self._changed.notify_all()

    def flush(self) -> None:
        """Store every line that was put before. Raises what the database raises; nothing is lost by that."""
        with self._writing:
            while batch := self._take():
                try:
                    store(batch)
                except AWAY:
                    self._give_back(batch)
                    raise

    def run(self) -> None:
        try:
            while self._wait():
                try:
                    self.flush()
                except AWAY as error:
                    let_go()
                    log.warning("Transcript lines wait for the database: %s", error)
                    self._pause(1.0)
        finally:
            connection.close()

    def close(self) -> None:
        """End the thread. What is left is stored by a last `flush` of the caller."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        few = len(self._lines) < MOST_WAITING and self._size < MOST_CHARACTERS
        return few or self._closing

    def _wait(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._closing)
            if not self._closing:
                self._changed.wait_for(lambda: self._closing or len(self._lines) >= BATCH, EVERY_S)
            return not self._closing

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing, seconds)

    def _take(self) -> list[Line]:
        with self._changed:
            batch = [self._lines.popleft() for _ in range(min(BATCH, len(self._lines)))]
            self._size -= sum(len(line.text) for line in batch)
            self._changed.notify_all()
            if not self._lines and self._dropped:
                notes = [replace(line, text=_dropped(count)) for line, count in self._dropped.items()]
                self._dropped.clear()
                batch += notes
            return batch

    def _give_back(self, batch: list[Line]) -> None:
        with self._changed:
            self._lines.extendleft(reversed(batch))
            self._size += sum(len(line.text) for line in batch)


def store(lines: list[Line]) -> None:
    """Insert the lines; where one of them cannot be stored, the others are."""
    try:
        tasks.add_transcript_lines(lines)
    except AWAY:
        raise
    except Exception as error:
        if len(lines) == 1:
            log.warning("A transcript line of task %s was dropped: %s", lines[0].task_key, error)
            _say_dropped(lines[0])
            return
        for line in lines:
            store([line])


def _say_dropped(line: Line) -> None:
    """Say in its place that a line is missing, so that a transcript never looks whole where it is not."""
    if line.kind == STATUS and line.text == _dropped(1):
        return  # not even that can be stored: its task is gone
    store([replace(line, text=_dropped(1), kind=STATUS, data=None)])


def _dropped(count: int) -> str:
    lines = "A line is" if count == 1 else f"{count} lines are"
    return f"{lines} missing here: it could not be stored. The log of the drain says why."

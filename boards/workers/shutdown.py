"""The stages of ending a drain: grace, signal, SIGKILL, and giving up on what cannot be killed (spec: 03
section 3.2).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from boards.workers.runner import Run

KILL_AFTER_S: Final = 3.0  # between the signal and SIGKILL
GIVE_UP_S: Final = 0.5  # for Python code that was told to stop; it cannot be confirmed dead
NEVER_S: Final = 30.0  # past SIGKILL nothing is waited for longer: what is left is handed back
AWAY_S: Final = 5.0  # for a database that is away when the last endings are to be written


class Shutdown:
    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._seen: Counter[int] = Counter()
        self._asked_at = 0.0
        self._signalled_at: float | None = None
        self._killed_at: float | None = None

    def ask(self, number: int) -> None:
        """A signal came. The second one of the same kind does all that is left at once."""
        self._seen[number] += 1
        self._asked_at = self._asked_at or time.monotonic()

    @property
    def asked(self) -> bool:
        return bool(self._seen)

    @property
    def at_once(self) -> bool:
        # Of the same kind, since a terminal's Ctrl-C may reach the drain together with its parent's SIGTERM.
        return max(self._seen.values(), default=0) > 1

    def may_wait_for_database(self) -> bool:
        """Whether there is time left to write the last endings once the database is back."""
        return time.monotonic() < self._asked_at + self._grace_s + KILL_AFTER_S + GIVE_UP_S + AWAY_S

    def act(self, running: Sequence[Run]) -> None:
        """Do what the moment asks for, each thing once."""
        now = time.monotonic()
        if self._signalled_at is None and (self.at_once or now >= self._asked_at + self._grace_s):
            self._signalled_at = now
            for run in running:
                run.stop("shutdown")
        if self._signalled_at is None or self._killed_at is not None:
            return
        if self.at_once or now >= self._signalled_at + KILL_AFTER_S:
            self._killed_at = now
            for run in running:
                if run.handle is not None:
                    run.handle.kill()

    def over(self, running: Sequence[Run]) -> bool:
        """Whether nothing runs any more, or only what cannot be ended."""
        if not running:
            return True
        if self._signalled_at is None:
            return False
        now = time.monotonic()
        if not any(run.handle is not None and run.handle.can_be_killed for run in running):
            return now >= self._signalled_at + GIVE_UP_S
        return self._killed_at is not None and now >= self._killed_at + NEVER_S

"""The tasks that one drain holds, from the claim to the settling write: started, kept alive, ended.

Everything here belongs to the drain's own thread; workers and renewals report through `inbox` only.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Final

from boards import tasks
from boards.models import Attempt, RosterEntry, Task
from boards.tasks import Claimed, Start
from boards.workers.adapters import Adapter, Failed, StoppedEarly
from boards.workers.adapters.python import PythonAdapter
from boards.workers.databases import AWAY
from boards.workers.renewals import Renewals
from boards.workers.runner import Run, Runner
from boards.workers.scribe import Scribe
from boards.workers.settling import Settled, settle

log = logging.getLogger(__name__)

Inbox = SimpleQueue[Callable[[], None]]

ENOUGH: Final = 100  # endings that are settled without waiting for more
GATHER_S: Final = 0.003  # and for how long fewer wait for company
YOUNG_S: Final = 0.02  # what runs for longer is not expected to end in a moment


class Work:
    """`take` what was claimed, `start` it, `settle` what ended. Methods raise what an absent database
    raises; what was not done then is done by the next call.
    """

    def __init__(self, adapters: Mapping[str, Adapter], inbox: Inbox, host: str, beat: Callable[[], None]) -> None:
        self._adapters, self._inbox = adapters, inbox
        self._scribe = Scribe()
        self._runner = Runner(adapters, self._scribe, host, self._ended)
        self._renewals = Renewals(beat)
        self._running: dict[tuple[int, int], Run] = {}
        self._newest: dict[int, Run] = {}  # of those that run, by task: an older grant of it may still run too
        self._begun: list[Run] = []  # by the claim that runs
        self._to_start: list[Run] = []
        self._to_settle: list[Run] = []
        self._young = 0  # how many of those that were started last still run
        self._begun_from = self._begun_at = self._first_ended_at = 0.0

    @property
    def running(self) -> list[Run]:
        """Everything that was claimed and is not settled."""
        return list(self._running.values())

    def per_board(self) -> Counter[int]:
        return Counter(run.task.board_id for run in self._running.values())

    def gathers(self) -> float:
        """Seconds to wait for more endings before what has ended is settled: while work that was begun just now still
        runs, it is likely to end in a moment, and one commit for many is worth a few milliseconds.
        """
        if not self._to_settle or len(self._to_settle) >= ENOUGH or self._young < 1:
            return 0.0
        now = time.monotonic()
        return min(self._first_ended_at + GATHER_S, self._begun_at + YOUNG_S) - now

    def begin(self) -> None:
        self._renewals.start()
        self._scribe.start()

    def begin_runs(self, claimed: Sequence[Claimed], entry_for: Callable[[Task], RosterEntry | None]) -> list[Start]:
        """Called in the claim's transaction, perhaps again: say what the starts leave."""
        self._begun = [Run(one, entry_for(one.task)) for one in claimed]
        return self._runner.begin(self._begun)

    def take_begun(self) -> None:
        """Keep the leases of what the last claim began, from now on, and have it started; the claim has committed."""
        for run in self._begun:
            self._take(run)
        self._begun = []

    def _take(self, run: Run) -> None:
        older = self._newest.get(run.ticket.task_key)
        if older is not None and older.name in self._running:
            older.stop("lost")
            self._renewals.drop(older.name)
        self._running[run.name] = self._newest[run.ticket.task_key] = run
        span = run.task.lease_duration_ms or run.task.board.lease_ms
        lost = functools.partial(self._inbox.put, functools.partial(run.stop, "lost"))
        self._renewals.keep(run.name, run.ticket, span, lost)
        self._to_start.append(run)

    def tell(self, run: Run) -> None:
        """Have a run started that was cancelled while it was suspended; it has no lease to keep."""
        self._running[run.name] = run
        self._to_start.append(run)

    def start(self) -> list[Run]:
        """Start what was taken; one that cannot be started has ended with a sentence."""
        batch = list(self._to_start)
        if not batch:
            return []
        self._begun_from = time.monotonic()
        try:
            self._runner.prepare(batch)
            self._runner.start(batch)
        except AWAY:
            raise
        except Exception as error:
            log.exception("Tasks could not be started")
            for run in [run for run in batch if run.began == 0.0]:
                self._ended_unstarted(run, f"{type(error).__name__}: {error}")
        self._to_start.clear()
        self._young, self._begun_at = len(batch), time.monotonic()
        return batch

    def _ended_unstarted(self, run: Run, error: str) -> None:
        run.ending = Failed(f"The worker could not be started: {error}")
        self._to_settle.append(run)

    def settle(self) -> list[Settled]:
        """Write every ending that was told since the last call."""
        batch = list(self._to_settle)
        if not batch:
            return []
        try:
            settled = settle(batch, self._scribe)
        except AWAY:
            for run in batch:
                run.doubtful = True
            raise
        del self._to_settle[: len(batch)]
        for run in batch:
            self._running.pop(run.name, None)
            self._renewals.drop(run.name)
            if self._newest.get(run.ticket.task_key) is run:
                del self._newest[run.ticket.task_key]
        return settled

    def hand_back_unstarted(self) -> None:
        """What was claimed and not begun goes back first."""
        for run in self._to_start:
            run.why, run.ending = "shutdown", StoppedEarly()
        self._to_settle += self._to_start
        self._to_start.clear()

    def hand_back_unknown(self, drain_id: str) -> None:
        """Rows that this drain claimed without learning of it, since the answer was lost with the connection."""
        mine = Task.objects.filter(lease_until__isnull=False, claimed_by__drain=drain_id).select_related("board")
        attempts = Attempt.objects.filter(task__in=mine, ended_at=None).select_related("task__board")
        for attempt in attempts:
            run = Run(Claimed(attempt.task, tasks.mint(attempt.task, attempt.pk)), None)
            if run.name not in self._running:
                run.ending = StoppedEarly()
                self._to_settle.append(run)

    def watch_loop(self) -> None:
        """Say on the tasks of async workers when one of them holds up the loop; their leases are kept all the same."""
        silent_s = max((a.silent_for() for a in self._adapters.values() if isinstance(a, PythonAdapter)), default=0.0)
        for run in self._running.values():
            shares = not run.cancelled and run.handle is not None and run.handle.shares_loop
            if shares and silent_s * 3000 < (run.task.lease_duration_ms or 0):
                run.told_silence = False
            elif shares and not run.told_silence and run.port is not None:
                run.told_silence = True
                run.port.say(f"The event loop has been held up for {silent_s:.0f} s by a worker that blocks.", "status")

    def beat_now(self) -> None:
        self._renewals.hurry()

    def close(self, sign_off: Callable[[], None]) -> int:
        """Let go of everything; what still runs is handed back in the last statement. Answers how much that
        was.
        """
        left = self.running
        self._renewals.close()
        self._scribe.close()
        try:
            self._renewals.join(2)
            self._scribe.flush()
            sign_off()
            for run in left:
                run.why, run.ending = "shutdown", run.ending or StoppedEarly()
            settle(left, self._scribe)
        except AWAY as error:
            log.warning("%d tasks are left to their leases, the database is away: %s", len(left), error)
        for adapter in self._adapters.values():
            adapter.close()
        return len(left)

    def _ended(self, run: Run) -> None:
        self._inbox.put(functools.partial(self._has_ended, run))

    def _has_ended(self, run: Run) -> None:
        if not self._to_settle:
            self._first_ended_at = time.monotonic()
        self._young -= run.began >= self._begun_from
        self._to_settle.append(run)

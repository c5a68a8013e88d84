"""The tasks that one drain holds, from the claim to the settling write: started, kept alive, ended.

Everything here belongs to the drain's own thread; workers and renewals report through `inbox` only.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
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
from boards.workers.settler import Answer, Settler
from boards.workers.settling import Settled, settle

log = logging.getLogger(__name__)

Inbox = SimpleQueue[Callable[[], None]]

ENOUGH: Final = 200  # endings that are settled without waiting for more
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
        self._settler: Settler | None = None
        self._writing = 0  # how many of those to settle, from the first, are being written
        self._answers: list[Answer] = []  # of batches that were written since the last call of `settle`
        self._young = 0  # how many of those that were started last still run
        self._begun_from = self._begun_at = self._first_ended_at = 0.0

    @property
    def running(self) -> list[Run]:
        """Everything that was claimed and is not settled."""
        return list(self._running.values())

    @property
    def busy(self) -> list[Run]:
        """What takes a slot: all of it but Python workers that have returned, whose endings are only to be written."""
        return [run for run in self._running.values() if not run.frees_slot]

    @property
    def is_writing(self) -> bool:
        """Whether endings are being written whose outcome is not known yet."""
        return self._writing > 0

    def room(self, slots: int) -> int:
        """How many of `slots` a claim may fill. Where there is one, its work is recorded before the next begins."""
        return slots - len(self._running) if slots == 1 else min(slots - len(self.busy), 2 * slots - len(self._running))

    def per_board(self) -> Counter[int]:
        """How many take a slot of their board's `concurrency`."""
        return Counter(
            run.task.board_id for run in self._running.values() if not run.frees_slot or run.task.board.concurrency == 1
        )

    def gathers(self) -> float:
        """Seconds to wait for more endings before what has ended is settled: while work that was begun just now still
        runs, it is likely to end in a moment, and one commit for many is worth a few milliseconds.
        """
        waiting = len(self._to_settle) - self._writing
        if not 0 < waiting < ENOUGH or self._young < 1:
            return 0.0
        now = time.monotonic()
        return min(self._first_ended_at + GATHER_S, self._begun_at + YOUNG_S) - now

    def begin(self, *, settles_aside: bool = False) -> None:
        """`settles_aside`: endings are written in a thread of their own, while the next tasks are claimed."""
        self._renewals.start()
        self._scribe.start()
        if settles_aside:
            self._settler = Settler(self._scribe, lambda answer: self._inbox.put(lambda: self._answers.append(answer)))
            self._settler.start()

    def begin_runs(self, claimed: Sequence[Claimed], entry_for: Callable[[Task], RosterEntry | None]) -> list[Start]:
        """Called in the claim's transaction, perhaps again: say what the starts leave."""
        self._begun = [Run(one, entry_for(one.task)) for one in claimed]
        return self._runner.begin(self._begun)

    @property
    def first_words(self) -> str:
        """How the transcript of a first attempt begins."""
        return self._runner.first_words(1)

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

    def settle(self, *, here: bool = False) -> list[Settled]:
        """Have every ending written that was told since the last call; answers what has been written.

        `here` writes them in this thread, and so does a drain that does not settle aside.
        """
        settled = self._take_answers()
        if self._to_settle and not self._writing:
            batch = list(self._to_settle)
            self._writing = len(batch)
            if self._settler is not None and not here:
                self._settler.write(batch)
            else:
                self._answers.append(_settle_here(batch, self._scribe))
                settled += self._take_answers()
        return settled

    def _take_answers(self) -> list[Settled]:
        """What the batch came to whose write is over, if one is; raises what its write raised."""
        if not self._answers:
            return []
        answer, batch = self._answers.pop(), self._to_settle[: self._writing]
        self._writing = 0
        if isinstance(answer, Exception):
            for run in batch:
                run.doubtful = run.doubtful or isinstance(answer, AWAY)
            raise answer
        del self._to_settle[: len(batch)]
        for run in batch:
            self._running.pop(run.name, None)
            self._renewals.drop(run.name)
            if self._newest.get(run.ticket.task_key) is run:
                del self._newest[run.ticket.task_key]
        return answer

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
        if self._settler is not None:
            self._settler.close()
        self._renewals.close()
        self._scribe.close()
        try:
            left = self._left()
            self._renewals.join(2)
            self._scribe.flush()
            sign_off()
            for run in left:
                if run.ending is None:
                    run.why, run.ending = "shutdown", StoppedEarly()
            settle(left, self._scribe)
        except AWAY as error:
            log.warning("%d tasks are left to their leases, the database is away: %s", len(left), error)
        for adapter in self._adapters.values():
            adapter.close()
        return len(left)

    def _left(self) -> list[Run]:
        """What is not settled, once no write of endings runs any more."""
        with contextlib.suppress(Empty):
            while self._writing and not self._answers:
                self._inbox.get_nowait()()
        try:
            self._take_answers()
        except Exception as error:
            log.warning("The last endings could not be written, they are tried once more: %s", error, exc_info=error)
        return self.running

    def _ended(self, run: Run) -> None:
        self._inbox.put(functools.partial(self._has_ended, run))

    def _has_ended(self, run: Run) -> None:
        if len(self._to_settle) == self._writing:
            self._first_ended_at = time.monotonic()
        self._young -= run.began >= self._begun_from
        self._to_settle.append(run)


def _settle_here(batch: list[Run], scribe: Scribe) -> Answer:
    try:
        return settle(batch, scribe)
    except Exception as error:
        return error

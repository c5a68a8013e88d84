"""The drain: claims tasks, starts their workers, writes how they ended (spec: 03 section 3).

`pass_once` does one unit of work and says whether there was any; `run` adds the sleep and the stop. One
thread owns all state here; workers, the listener, the renewals and signal handlers only put messages into
its inbox.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from boards import tasks
from boards.debts import paying
from boards.live_notices import Listener, Notice
from boards.models import Board, Process
from boards.states import Verb
from boards.tasks import Claimed, Wanted
from boards.workers import idle, words
from boards.workers.adapters import Adapter
from boards.workers.databases import AWAY, let_go
from boards.workers.options import DrainEnd, DrainOptions, default_adapters
from boards.workers.processes import Presence
from boards.workers.resumes import Resumes
from boards.workers.serving import Roster
from boards.workers.settling import Settled
from boards.workers.shutdown import Shutdown
from boards.workers.stops import Stops
from boards.workers.work import Inbox, Work

log = logging.getLogger(__name__)

Value = TypeVar("Value")

TELL_S: Final = 0.5  # how often at most the process row follows the number of busy slots
BACKOFF_S: Final = (0.1, 2.0)  # while the database is away
TICK_S: Final = 0.05  # between two looks while shutting down
PAY_S: Final = 0.05  # between two looks for what it owes: a busy drain hears of its own work all the time


class Drain:
    """One drain. `say` gets one short line for each start and ending."""

    def __init__(
        self,
        options: DrainOptions,
        say: Callable[[str], None] = lambda line: None,
        adapters: dict[str, Adapter] | None = None,
    ) -> None:
        adapters = adapters or default_adapters(options)
        self.options, self._say = options, say
        self.presence = Presence(Process.Kind.DRAIN, slots=options.concurrency)
        self._inbox: Inbox = SimpleQueue()  # its `put` may interrupt itself, so signal handlers may use it
        self._roster = Roster(adapters, options.boards, options.until_idle, self.presence.id)
        self._work = Work(adapters, self._inbox, self.presence.host, self._beat)
        self._stops = Stops(self.presence.id)
        self._resumes = Resumes(self.presence.id)
        self._shutdown = Shutdown(options.grace_s)
        self._listener: Listener | None = None
        self._dirty: set[int] = set()  # boards on which something may be claimable
        self._look_everywhere = True
        self._owes = True  # whether a stop or a resume may be owed
        self._claims: Counter[tuple[int, str]] = Counter()
        self._claimed_once = False
        self._failed = False
        self._unrecorded: list[str] = []
        self._untold = False  # a recorder failed, and the entry about it could not be kept
        self._next_poll = self._pays_again_at = 0.0
        self._told_busy_at = 0.0
        self._claims_in_doubt = False  # whether the answer to a claim may have been lost with the connection
        self._away = 0  # passes in a row that found no database

    # What other threads and signal handlers may call.

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Shut down; the same signal a second time does it now."""
        self._inbox.put(functools.partial(self._asked_to_stop, number))

    def hear(self, notice: Notice) -> None:
        """Something changed."""
        self._inbox.put(functools.partial(self._heard, notice))

    # One unit of work.

    def pass_once(self) -> bool:
        """Settle what has ended, stop what is cancelled, claim and start what there is room for.

        Answers whether there was anything. Raises what an absent database raises; the next call goes on from
        there.
        """
        self._read_inbox()
        self._gather()
        self._look_around()
        if self._shutdown.asked:
            self._work.hand_back_unstarted()
            self._shutdown.act(self._work.running)
        if self._claims_in_doubt:
            self._work.hand_back_unknown(str(self.presence.id))
            self._claims_in_doubt = False
        did = [self._settle()]
        # What is stopped or told first has its slot first; a drain at rest has slots for all, and work waits for none.
        steps = [self._pay_debts, self._claim, self._start]
        for step in steps if self._work.running else [*steps[1:], steps[0]]:
            did.append(step())
        return any(did)

    def _look_around(self) -> None:
        """Now and then everything is looked at, whether or not a notice came."""
        now = time.monotonic()
        if now >= self._next_poll:
            self._look_everywhere = self._owes = True
            self._next_poll = now + self.options.poll_s * random.uniform(0.9, 1.1)  # noqa: S311 (jitter)
            self._work.watch_loop()

    def _settle(self) -> bool:
        settled = self._work.settle(here=bool(self._away))
        for one in settled:
            self._dirty.add(one.run.task.board_id)
            self._failed = self._failed or _fails_pass(one)
            self._untold = self._untold or (one.silent and self._is_pass)
            if one.unrecorded and self._is_pass:
                self._unrecorded.append(words.unrecorded(one))
        self._owes = self._owes or bool(settled and (self._stops.waiting or self._resumes.taken))
        self._say_all(words.folded(settled, words.ended, "ended"))
        return bool(settled)

    def _pay_debts(self) -> bool:
        """Stop what was cancelled while it worked, and tell what was cancelled while it was suspended."""
        if not self._owes or time.monotonic() < self._pays_again_at:
            return False
        self._pays_again_at = time.monotonic() + PAY_S
        running = self._work.running
        owed = paying.owed_by([self._stops.payer, self._resumes.payer])
        did = [
            (self._stops.payer in owed or bool(self._stops.waiting)) and self._stops.look(running),
            self._resumes.look(running),
            self._resumes.payer in owed and self._tell_cancelled(),
        ]
        self._owes = False
        return any(did)

    def _tell_cancelled(self) -> bool:
        running, room = self._work.running, self._work.room(self.options.concurrency)
        if self._shutdown.asked or room < 1:
            return False
        runs = self._resumes.take(self._roster.boards, self._roster.entry_for, room, running)
        for run in runs:
            self._work.tell(run)
        return bool(runs)

    def _claim(self) -> bool:
        free = min(self._work.room(self.options.concurrency), tasks.MAX_CLAIMED)
        if free < 1 or self._shutdown.asked or self._claimed_once or self._untold:
            return False
        if not self._look_everywhere and not self._dirty:
            return False
        self._roster.refresh(at_once=not self._roster.known.issuperset(self._dirty))
        self._say_all(self._roster.news())
        if self._look_everywhere:
            self._dirty, self._look_everywhere = set(self._roster.boards), False
        open_boards = self._dirty - self._spent_boards()
        wanted = self._roster.wanted(open_boards, self._work.per_board(), free)
        claimed_by = {"drain": str(self.presence.id), "host": self.presence.host, "pid": os.getpid()}
        begin = functools.partial(self._work.begin_runs, entry_for=self._roster.entry_for)
        claimed = tasks.claim(
            wanted, limit=free, claimed_by=claimed_by, begin=begin, first_words=self._work.first_words
        )
        self._claimed_once = self.options.once
        self._note_emptied(wanted, claimed, free)
        for one in claimed:
            self._claims[(one.task.board_id, one.task.assignee)] += 1
        if claimed:  # else what was begun is of a claim that failed
            self._work.take_begun()
        return bool(claimed)

    def _note_emptied(self, wanted: list[Wanted], claimed: list[Claimed], free: int) -> None:
        """Boards that gave less than there was room for have nothing more; the others are asked again."""
        if len(claimed) >= free:
            return
        got = Counter(one.task.board_id for one in claimed)
        emptied = {want.board_id for want in wanted if got[want.board_id] < (want.limit or 0)}
        self._dirty = (self._dirty - emptied) & set(self._roster.boards)

    def _start(self) -> bool:
        started = self._work.start()
        self._say_all(words.folded(started, words.started, "started"))
        return bool(started)

    def _spent_boards(self) -> set[int]:
        """Boards with a worker that had all the claims that one pass allows."""
        if not self.options.until_idle:
            return set()
        known = self._roster.boards
        return {pk for (pk, _), n in self._claims.items() if pk in known and n >= known[pk].max_iterations}

    def _asked_to_stop(self, number: int) -> None:
        self._shutdown.ask(number)
        patience = "at once" if self._shutdown.at_once else f"within {self.options.grace_s:g} s"
        self._say(f"stopping {patience}, {len(self._work.running)} at work")

    def _heard(self, notice: Notice) -> None:
        self._owes = True
        if notice.gap:
            self._look_everywhere = True
        elif notice.board_id is not None:
            self._dirty.add(notice.board_id)

    def _read_inbox(self) -> None:
        try:
            while True:
                self._inbox.get_nowait()()
        except Empty:
            pass

    def _gather(self) -> None:
        """Let what was begun just now end too, so that it is settled with what has ended."""
        with contextlib.suppress(Empty):
            while not self._shutdown.asked and (wait_s := self._work.gathers()) > 0:
                self._inbox.get(timeout=wait_s)()

    # The loop around it.

    def run(self, listener: Listener | None = None) -> DrainEnd:
        """Work until told to stop, or until the boards are idle where that was asked for."""
        self.begin(listener)
        end = None
        while end is None:
            if not self._calmly(self.pass_once):
                end = self._calmly(self._over)
                if end is None:
                    self._rest()
                    self._sleep()
            self._tell_busy()
        return self.close(end)

    def begin(self, listener: Listener | None = None) -> None:
        """Register, listen, and start the threads that keep leases, store transcript lines and settle.

        A pass settles in this thread: one that fails for what could not be recorded claims nothing more.
        """
        self._roster.refresh(at_once=True)
        self.presence.boards = sorted(self._roster.boards) if self.options.boards else []
        self.presence.assignees = list(self._roster.present)
        self.presence.register()
        self._work.begin(settles_aside=not self._is_pass)
        self._say(self._roster.words())
        self._listener = listener
        if listener is not None:
            listener.subscribe(self.hear)
            listener.start()

    def close(self, end: DrainEnd) -> DrainEnd:
        """Sign off. What still runs is handed back, last of all."""
        if self._listener is not None:
            self._listener.stop()
        left = self._work.close(self.presence.sign_off)
        return replace(end, stuck=left > 0, unrecorded=tuple(self._unrecorded))

    def _calmly(self, work: Callable[[], Value]) -> Value | None:
        """Do a part of the loop; None where it failed. Only a signal ends a drain, no error does."""
        try:
            value = work()
        except AWAY as error:
            if not self._away:
                log.warning("The database is away; the drain goes on when it is back: %s", error)
            self._away += 1
            let_go()
        except Exception:
            log.exception("A pass failed; the next one tries again")
            self._away += 1
        else:
            if self._away and work == self.pass_once:
                log.warning("The drain goes on")
                self._away, self._look_everywhere, self._owes = 0, True, True
                self._claims_in_doubt = True
            return value
        return None

    def _over(self) -> DrainEnd | None:
        """Whether, and why, there is nothing left to do for this drain."""
        running = self._work.running
        if self._shutdown.asked:
            if self._away:
                return None if self._shutdown.may_wait_for_database() else DrainEnd("stopped")
            over = self._shutdown.over(running) and not self._claims_in_doubt
            return DrainEnd("stopped") if over else None
        if self._untold:  # not even an entry could be kept: the pass fails at once
            return DrainEnd("recorder-failure", failed=True)
        if running or self._away or self._claims_in_doubt:
            return None
        if self.options.once and self._claimed_once:
            return DrainEnd("once", failed=self._failed)
        return self._idle() if self.options.until_idle else None

    @property
    def _is_pass(self) -> bool:
        """Whether this drain ends by itself; a standing one goes on whatever could not be recorded."""
        return self.options.once or self.options.until_idle

    def _idle(self) -> DrainEnd | None:
        found = idle.ask(
            list(self._roster.boards.values()),
            spent=bool(self._spent_boards()),
            unserved=self._roster.unserved,
        )
        return found and DrainEnd(found[0], found[1], self._failed)

    def _rest(self) -> None:
        """Read ahead what the next claim goes by."""
        if not (self._work.running or self._away or self._shutdown.asked or self._is_pass):
            self._calmly(functools.partial(self._roster.refresh, ahead=True))

    def _sleep(self) -> None:
        """Until a message comes, or it is time to look by itself. Without a database no message shortens it."""
        timeout = self._next_poll - time.monotonic()
        if self._owes:
            timeout = min(timeout, self._pays_again_at - time.monotonic())
        if self._away:
            least, most = BACKOFF_S
            timeout = min(most, least * 2 ** min(self._away, 10)) * random.uniform(0.5, 1)  # noqa: S311 (jitter)
        if self._shutdown.asked:
            timeout = min(timeout, TICK_S)
        ends_at = time.monotonic() + timeout
        try:
            self._inbox.get(timeout=max(0.0, timeout))()
            while self._away and not self._shutdown.asked:
                self._inbox.get(timeout=max(0.0, ends_at - time.monotonic()))()
        except Empty:
            pass

    # What people and pages are told.

    def _beat(self) -> None:
        """Called by the thread that keeps the leases."""
        self.presence.listening = self._listener is not None and self._listener.listening
        self.presence.assignees = list(self._roster.present)
        self.presence.beat()

    def _tell_busy(self) -> None:
        now, busy = time.monotonic(), len(self._work.busy)
        if self.presence.busy != busy and now - self._told_busy_at >= TELL_S:
            self.presence.busy, self._told_busy_at = busy, now
            self._work.beat_now()

    def _say_all(self, lines: list[str]) -> None:
        for line in lines:
            self._say(line)


def _fails_pass(one: Settled) -> bool:
    """Whether this ending fails the pass as well: by the board's `on_error`, which is not asked where the result could
    not be recorded.
    """
    if one.unrecorded is not None:
        return True
    failed = one.verb is Verb.FAIL and one.outcome is not None and one.outcome.landed
    return failed and one.run.task.board.on_error == Board.OnError.FAIL

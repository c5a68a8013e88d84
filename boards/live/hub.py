"""The fan-out: one per web process, with one look into the database per fold however many pages are open (spec: 08, 1).

It lives in the event loop and owns who hears what and when: changes are folded per board, the first at once, then at
most five updates a second. It reads nothing itself (`reading.read` does, in a thread), and it hands each message to
the sockets directly: no channel layer, no groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from boards.live import admission
from boards.live.hints import Hints
from boards.live.pace import REFRESH_S, BoardTurn
from boards.live.page import Page
from boards.live.reading import Due, Outcome, Work, count, read
from boards.live.rendering import BEAT
from boards.live.rooms import Rooms
from boards.live.threads import DatabaseThread
from boards.live_notices import Listener, Notice
from boards.measured import here
from boards.queries import catchup
from boards.queries.subscriptions import Subscription

log = logging.getLogger(__name__)

GATHER_S: Final = 0.02  # pages that ask together, after a restart, are answered together
BEAT_S: Final = 15.0
CHECK_S: Final = 30.0  # twice within the minute in which a lost right has to close a socket
RETRY_S: Final = 1.0
AT_ONCE: Final = 100  # sockets that are written to before the loop may do something else


@dataclass(frozen=True, slots=True)
class _Fold:
    began: float
    work: Work


class Hub:
    """Sockets join, ask for what they missed, and are live from its answer on, until they hide or leave."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.listener = Listener("live-listener", took=here.notices.note)
        self.rooms = Rooms()
        self._hints = Hints(self.rooms)
        self._admitting: dict[admission.Request, asyncio.Task[Subscription | int]] = {}
        self._asks: dict[Page, str] = {}
        self._answering: set[Page] = set()
        self._boards: dict[int, BoardTurn] = {}
        self._since: str | None = None
        self._read_at = float("-inf")
        self._woken = asyncio.Event()
        self._reader, self._checker = DatabaseThread("live-read"), DatabaseThread("live-check")
        self._jobs: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self.listener.subscribe(self._hear)
        self.listener.start()
        here.hears = lambda: self.listener.listening
        for job in (self._fold_for_ever(), self._beat_for_ever(), self._check_for_ever()):
            self._jobs.add(self.loop.create_task(job))

    async def stop(self) -> None:
        """End jobs and threads and give the connections back."""
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        for part in (self.listener, self._reader, self._checker):
            await asyncio.to_thread(part.stop)

    async def admit(self, request: admission.Request) -> Subscription | int:
        """What the page may hear, or the close code that says why not. Equal requests that come together share one."""
        answer = self._admitting.get(request)
        if answer is None:
            answer = self._admitting[request] = self.loop.create_task(self._checker.run(admission.admit, request))
            answer.add_done_callback(lambda _: self._admitting.pop(request))
        return await asyncio.shield(answer)

    def join(self, socket: Page) -> None:
        self.rooms.add(socket)
        here.sockets = len(self.rooms.all)
        self._hints.count([socket])
        self._woken.set()

    def ask(self, socket: Page, cursor: str) -> None:
        """The page stands at `cursor` and wants what it missed; until that is told it hears no other change."""
        if socket in self.rooms.all:
            self.hide(socket)
            self._asks[socket] = cursor
            self._hints.count([socket])
            self._woken.set()

    def hide(self, socket: Page) -> None:
        """Nobody sees the page: it hears its count only, until it asks again."""
        self.rooms.live.discard(socket)
        self._answering.discard(socket)
        self._asks.pop(socket, None)

    def leave(self, socket: Page) -> None:
        self.hide(socket)
        if socket in self.rooms.all:
            self.rooms.remove(socket)
            here.sockets = len(self.rooms.all)
        if not self.rooms.all:
            self._boards, self._since = {}, None

    def _hear(self, notice: Notice) -> None:
        """Called in the listener's thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self._take, notice)

    def _take(self, notice: Notice) -> None:
        if notice.gap:
            catchup.forget_epoch()
            self._read_at = float("-inf")
        if notice.board_id is not None and notice.board_id in self.rooms.interest:
            self._turn_of(notice.board_id).add(notice.task_keys)
            if not notice.task_keys | notice.run_ids:  # of the board itself: perhaps time alone has brought a row
                self._hints.count(self.rooms.of_board(notice.board_id))
        if notice.run_ids:
            self._hints.note_runs(notice.run_ids & self.rooms.live_runs())
        if notice.process:
            self._hints.note_process()
        if notice.user_ids:
            theirs = self.rooms.of_user(notice.user_ids)
            self._hints.count(theirs)
            job = self.loop.create_task(self._check(theirs))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)
        self._woken.set()

    def _turn_of(self, board_id: int) -> BoardTurn:
        return self._boards.setdefault(board_id, BoardTurn())

    async def _fold_for_ever(self) -> None:
        while True:
            await self._until_due()
            fold = self._begin()
            try:
                outcome = await self._reader.run(read, fold.work)
            except Exception:
                log.exception("Open pages could not be told of changes; this is tried again")
                self._put_back(fold)
                await asyncio.sleep(RETRY_S)
            else:
                await self._deliver(fold, outcome)
                await self._hint(outcome.cursor)

    async def _until_due(self) -> None:
        while (left := self._due_at() - time.monotonic()) > 0:
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), left if left < float("inf") else None)

    def _due_at(self) -> float:
        """The earliest moment of all that waits, and of the poll that finds what no notice told."""
        if not self.rooms.all:
            return float("inf")
        turns = [turn.pace.next_at for turn in self._boards.values() if turn.is_dirty]
        asks = [self._read_at + GATHER_S] if self._asks else []
        return min([self._read_at + settings.POLL_MS / 1000, self._hints.next_at(), *turns, *asks])

    def _begin(self) -> _Fold:
        now = time.monotonic()
        asks, self._asks = self._asks, {}
        self._answering = set(asks)
        taken = {
            board_id: board.take()
            for board_id, board in self._boards.items()
            if board.is_dirty and board.pace.is_due(now)
        }
        lanes, tasks = self.rooms.on_lanes(taken), self.rooms.on_tasks(taken)
        due = {key: Due(keys, too_many, lanes[key], tasks[key]) for key, (keys, too_many) in taken.items()}
        return _Fold(now, Work(self._since, self.rooms.interest, due, tuple(asks.items())))

    def _put_back(self, fold: _Fold) -> None:
        for board_id, due in fold.work.due.items():
            self._turn_of(board_id).add(due.keys, too_many=due.too_many)
        self._asks = {socket: cursor for socket, cursor in fold.work.asks if socket in self._answering} | self._asks

    async def _deliver(self, fold: _Fold, outcome: Outcome) -> None:
        self._read_at = time.monotonic()
        self._since = outcome.cursor if self.rooms.all else None
        for board_id in fold.work.due:
            self._turn_of(board_id).pace.took(fold.began, REFRESH_S if board_id in outcome.refreshed else 0)
        for board_id, missed in outcome.missed.items():
            if board_id not in fold.work.due:  # told too short a time ago, or no notice came of it
                self._turn_of(board_id).add(missed.task_keys, too_many=missed.too_many)
        self._hints.note(outcome.missed)
        for sockets, text in outcome.sends:
            await _tell(sockets, text)
        self.rooms.live |= self._answering & self.rooms.all
        self._answering = set()

    async def _hint(self, cursor: str) -> None:
        """After the boards, since counting takes longer than they do."""
        began = time.monotonic()
        if not (turn := self._hints.take(began)):
            return
        try:
            counts = await self._reader.run(count, turn.people) if turn.people else {}
        except Exception:
            log.exception("What waits on people could not be counted; this is tried again")
            self._hints.put_back(turn)
            return
        self._hints.counted(began, time.monotonic() - began)
        for socket, text in self._hints.tells(turn, counts, cursor):
            await _tell([socket], text)

    async def _beat_for_ever(self) -> None:
        """A page without a beat says that it is stale, so there is none while the database cannot be read."""
        while True:
            await asyncio.sleep(BEAT_S)
            if time.monotonic() - self._read_at < 2 * settings.POLL_MS / 1000 + 2 * RETRY_S:
                await _tell(list(self.rooms.all), BEAT)

    async def _check_for_ever(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            await self._check(list(self.rooms.all))
            self._hints.count(self.rooms.all)  # some rows come by time alone
            self._woken.set()

    async def _check(self, sockets: Iterable[Page]) -> None:
        """Close those whose users signed out, were deactivated or lost the right."""
        sockets = list(sockets)
        try:
            refused = await self._checker.run(admission.refusals, [socket.request for socket in sockets])
        except Exception:
            log.exception("The rights of open pages could not be checked; this is tried again")
            return
        for socket in sockets:
            if code := refused.get(socket.request):
                self.leave(socket)
                await socket.end(code)


async def _tell(sockets: Iterable[Page], text: str) -> None:
    for number, socket in enumerate(sockets, start=1):
        try:
            await socket.tell(text)
        except Exception as error:  # it has gone; its own end of the line says so next
            log.debug("A page could not be told: %s", error)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


_hub: Hub | None = None


def current_hub() -> Hub:
    """The hub of the running loop, started with the first socket: daphne loads the application before a loop runs."""
    global _hub
    if _hub is None or _hub.loop is not asyncio.get_running_loop():
        _hub = Hub()
        _hub.start()
    return _hub

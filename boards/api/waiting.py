"""Calls that wait until there is something for them: claims of outside workers (spec: 06 section 3).

A call that waits is made again and again, each time as a request of its own; between two of them it holds no thread, no
connection and no request's place, and ends at once where its client goes or the process stops. One thread looks for all
that wait: when a change notice comes, when a moment comes that time alone brings (a lease that runs out, a back-off
that is over), and as often as everybody polls where no notice can be heard. So a hundred workers that wait cost one
connection, and one statement for each look. It lives while somebody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import close_old_connections, connection
from django.http import HttpRequest

from boards.api.bodies import MAX_BODY
from boards.api.operations import Answer, Call, Operation
from boards.live_notices import Listener, Notice
from boards.tasks import outside
from boards.tasks.outside import Place

log = logging.getLogger(__name__)

MOST: Final = 500  # calls of a process that wait; one more is answered at once
FOLD_S: Final = 0.02  # between a notice and the look, for others to come in
UNHEARD_S: Final = 15.0  # between two looks that nothing asked for, while notices are heard
AGAIN_S: Final = 0.25  # before one that was called in vain is called again
LINGERS_S: Final = 5.0  # after the last has gone
_NEVER: Final = float("inf")
_TOLD: Final = "orchestra.waits"  # in the scope of a request that can be made again

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Turn = Callable[[Any, Receive, Send], Awaitable[None]]


@dataclass
class Wish:
    """What one try of a call leaves: where it would wait, and for how long in all. `tries`: those before it."""

    place: Place | None = None
    seconds: float = 0.0
    tries: int = 0


async def in_turns(turn: Turn, scope: Any, receive: Receive, send: Send) -> None:
    """Answer a request that may wait: each try is one of `turn`, and between two nothing is held.

    A client that has gone takes nothing any more.
    """
    body = await _body(receive)
    gone = asyncio.ensure_future(_until_gone(receive))
    began, wish = time.monotonic(), Wish()
    try:
        while True:
            said: list[Any] = []

            async def keep(message: Any, said: list[Any] = said) -> None:
                said.append(message)

            wish.place = None
            await turn({**scope, _TOLD: wish}, _replay(body, gone), keep)
            left = wish.seconds - (time.monotonic() - began)
            if wish.place is None or left <= 0 or gone.done():
                break
            if not await _ready_before(gone, wish.place, left, AGAIN_S if wish.tries else 0.0):
                break
            wish.tries += 1
        if not gone.done():
            for message in said:
                await send(message)
    finally:
        gone.cancel()


async def _body(receive: Receive) -> list[Any]:
    """The messages of the body, as far as one may be read; whoever reads it refuses what is longer."""
    told, size = [], 0
    while True:
        message = await receive()
        told.append(message)
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            return [*told[:-1], {**message, "more_body": False}]
        if message["type"] != "http.request" or not message.get("more_body"):
            return told


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _replay(body: list[Any], gone: asyncio.Future[None]) -> Receive:
    left = iter(body)

    async def receive() -> Any:
        for message in left:
            return message
        await asyncio.shield(gone)
        return {"type": "http.disconnect"}

    return receive


async def _ready_before(gone: asyncio.Future[None], place: Place, seconds: float, pause_s: float) -> bool:
    ready = asyncio.ensure_future(_waiting.until_ready(place, seconds, pause_s))
    try:
        both: list[asyncio.Future[Any]] = [ready, gone]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return ready.done() and ready.result()
    finally:
        ready.cancel()


def is_repeat(request: HttpRequest) -> bool:
    """Whether this is a further try of a call that waits."""
    wish = getattr(request, "scope", {}).get(_TOLD)
    return wish is not None and wish.tries > 0


def answered(request: HttpRequest, operation: Operation, call: Call) -> Answer:
    """What the operation answers. Where there is nothing and the call waits, the server makes it again later; one that
    cannot has this thread wait.
    """
    answer, pause_s = operation.run(call), 0.0
    if not operation.waits:
        return answer
    wish = getattr(request, "scope", {}).get(_TOLD)
    if wish is not None:
        wish.place, wish.seconds = answer.waits_at, float(call.body.wait_s)
        return answer
    until = time.monotonic() + float(call.body.wait_s)
    while answer.waits_at is not None and (left := until - time.monotonic()) > 0:
        if not connection.in_atomic_block:
            connection.close()
        if not _waiting.block_until_ready(answer.waits_at, left, pause_s):
            break
        answer, pause_s = operation.run(call), AGAIN_S
    return answer


@dataclass(eq=False)
class _Waiter:
    place: Place
    wake: Callable[[], object]  # called in any thread
    not_before: float = 0.0
    called: bool = False

    def call(self) -> None:
        self.called = True
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self.wake()


class Waiting:
    """Those that wait in this process, and the thread that looks for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiters: set[_Waiter] = set()
        self._thread: threading.Thread | None = None
        self._dirty: set[int] | None = set()  # boards on which something changed; None: anything may have
        self._look_at = _NEVER

    async def until_ready(self, place: Place, seconds: float, pause_s: float = 0.0) -> bool:
        """Whether there was something at the place within so many seconds; `pause_s`: not before that."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        waiter = _Waiter(place, lambda: loop.call_soon_threadsafe(ready.set), time.monotonic() + pause_s)
        if not self._add(waiter):
            return False
        try:
            await asyncio.wait_for(ready.wait(), seconds)
        except TimeoutError:
            return False
        finally:
            self._remove(waiter)
        return True

    def block_until_ready(self, place: Place, seconds: float, pause_s: float = 0.0) -> bool:
        """The same for a thread that waits."""
        ready = threading.Event()
        waiter = _Waiter(place, ready.set, time.monotonic() + pause_s)
        if not self._add(waiter):
            return False
        try:
            return ready.wait(seconds)
        finally:
            self._remove(waiter)

    def _remove(self, waiter: _Waiter) -> None:
        with self._changed:
            self._waiters.discard(waiter)
            self._changed.notify_all()

    def _add(self, waiter: _Waiter) -> bool:
        with self._changed:
            if len(self._waiters) >= MOST:
                log.warning("More than %d calls wait in this process; further ones are answered at once", MOST)
                return False
            self._waiters.add(waiter)
            # What came between the try of a claim and now was told to nobody.
            self._look_at = min(self._look_at, waiter.not_before + FOLD_S)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="waiting-claims", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return True

    def _hear(self, notice: Notice) -> None:
        """Called in the listener's thread."""
        if notice.board_id is None and not notice.gap:
            return
        with self._changed:
            if notice.gap or self._dirty is None:
                self._dirty = None
            elif notice.board_id is not None:
                self._dirty.add(notice.board_id)
            self._changed.notify_all()

    def _run(self) -> None:
        listener = Listener("waiting-claims-listener")
        listener.subscribe(self._hear)
        listener.start()
        try:
            while self._until_due():
                self._look(listener)
        except BaseException:
            with self._changed:
                self._thread = None
            raise
        finally:
            listener.stop()
            connection.close()

    def _until_due(self) -> bool:
        """Waits for the next look; False where nobody has waited for a while, after which a new thread is started."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiters, LINGERS_S):
                self._thread = None
                return False
            while (left := self._look_at - time.monotonic()) > 0 and not self._is_asked():
                self._changed.wait(min(left, UNHEARD_S))
                if not self._waiters:
                    return True
        time.sleep(FOLD_S)
        return True

    def _is_asked(self) -> bool:
        dirty = self._dirty
        return dirty is None or any(waiter.place.board_id in dirty for waiter in self._waiters)

    def _look(self, listener: Listener) -> None:
        """One look for all that wait, each called as far as there is something for it."""
        with self._changed:
            self._dirty, self._look_at = set(), _NEVER
            waiters = [waiter for waiter in self._waiters if not waiter.called]
        places = list({waiter.place: None for waiter in waiters})
        now = time.monotonic()
        try:
            close_old_connections()
            found = dict(zip(places, outside.look(places) if places else [], strict=True))
        except Exception as error:
            log.warning("Claims that wait could not look for work, they try again: %s", error)
            connection.close()
            self._again_at(now + settings.POLL_MS / 1000)
            return
        poll_s = UNHEARD_S if listener.listening else settings.POLL_MS / 1000
        next_s = [seconds for _, seconds in found.values() if seconds is not None]
        self._again_at(now + min([poll_s, *next_s]) + FOLD_S)
        self._call(waiters, {place: count for place, (count, _) in found.items()}, now)

    def _call(self, waiters: Iterable[_Waiter], ready: dict[Place, int], now: float) -> None:
        """No more of them than there is work, in a mixed order: none starves behind one that cannot take it."""
        mixed = list(waiters)
        random.shuffle(mixed)
        for waiter in mixed:
            if not ready.get(waiter.place):
                continue
            if waiter.not_before > now:
                self._again_at(waiter.not_before)
                continue
            ready[waiter.place] -= 1
            waiter.call()

    def _again_at(self, moment: float) -> None:
        with self._changed:
            self._look_at = min(self._look_at, moment)


_waiting: Final = Waiting()

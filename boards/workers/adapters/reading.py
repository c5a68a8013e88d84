"""Reads the pipes of one program: what it prints becomes lines at once, what the launcher says is remembered.

One thread reads one program. Nothing here decides how the work ended (spec: 03 section 2).
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from boards.workers.adapters.output import Allowance, Lines, ResultLine, step_signal
from boards.workers.protocol import Port, Stopped

LAST_WORDS_S: Final = 2.0  # for pipes that are still open when the launcher has left
CHUNK: Final = 65_536
LOOK_S: Final = 1.0  # between two looks for messages to a program that reads them


@dataclass
class Heard:
    """What the launcher said and what the program printed. `code` None: the launcher never told the end."""

    pid: int = 0
    error: str = ""
    code: int | None = None
    last_complaint: str = ""
    result: ResultLine = field(default_factory=ResultLine)


class Reader:
    """Reads until the launcher has left and every pipe is at its end."""

    def __init__(
        self, launcher: subprocess.Popen[bytes], status: int, task_json: bytes, port: Port, *, follows: bool = False
    ) -> None:
        """`follows`: standard input stays open after the task, and each message to it is a line there."""
        assert launcher.stdin
        assert launcher.stdout
        assert launcher.stderr
        self.heard = Heard()
        self._port, self._muted = port, False
        self._allowance = Allowance(lambda text: self._say(text, "status"))
        self._status, self._news = status, b""
        self._stdin, self._to_write = launcher.stdin, memoryview(task_json)
        self._follows, self._next_look = follows, 0.0
        self._files = (launcher.stdin, launcher.stdout, launcher.stderr)
        self._streams = {
            launcher.stdout.fileno(): Lines(self._printed, self._look),
            launcher.stderr.fileno(): Lines(self._complained),
        }
        self._selector = selectors.DefaultSelector()
        for handle in (*self._streams, status):
            self._selector.register(handle, selectors.EVENT_READ)
        os.set_blocking(launcher.stdin.fileno(), False)
        self._selector.register(launcher.stdin, selectors.EVENT_WRITE)

    def read_all(self, limit_s: float | None, too_long: Callable[[], None], left: Callable[[], None]) -> None:
        """`too_long` is called once when the time limit is over, `left` when the launcher has left."""
        ends_at = None if limit_s is None else time.monotonic() + limit_s
        launcher_left = False
        try:
            while self._waits():
                timeout = None if ends_at is None else max(0.0, ends_at - time.monotonic())
                if self._follows:
                    timeout = LOOK_S if timeout is None else min(timeout, LOOK_S)
                for key, _ in self._selector.select(timeout):
                    self._serve(key.fd)
                self._pass_messages_on()
                if not launcher_left and not self._watches(self._status):
                    launcher_left, ends_at = True, time.monotonic() + LAST_WORDS_S
                    left()
                elif ends_at is not None and time.monotonic() >= ends_at:
                    if launcher_left:  # somebody outside the group still holds a pipe
                        return
                    ends_at = None
                    too_long()
        finally:
            self._selector.close()
            for file in self._files:
                file.close()

    def _waits(self) -> bool:
        return any(self._watches(handle) for handle in (*self._streams, self._status))

    def _watches(self, handle: int) -> bool:
        return handle in self._selector.get_map()

    def _serve(self, handle: int) -> None:
        if handle in self._streams:
            self._read_stream(handle)
        elif handle == self._status:
            self._read_status()
        else:
            self._write()

    def _write(self) -> None:
        try:
            self._to_write = self._to_write[os.write(self._stdin.fileno(), self._to_write[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it does not read its input, which is its right
            self._to_write, self._follows = self._to_write[:0], False
        if not self._to_write:
            self._selector.unregister(self._stdin)
            self._close_unfollowed()

    def _close_unfollowed(self) -> None:
        if not self._follows:
            self._stdin.close()

    def _pass_messages_on(self) -> None:
        """Write what people said since the last look, a JSON line each; nothing while the last is still on its way."""
        if not self._follows or self._to_write or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_S
        try:
            said = self._port.messages()
        except Stopped:
            self._follows = False
            self._close_unfollowed()
            return
        if said:
            self._to_write = memoryview(b"".join(json.dumps({"message": text}).encode() + b"\n" for text in said))
            self._selector.register(self._stdin, selectors.EVENT_WRITE)

    def _read_status(self) -> None:
        chunk = os.read(self._status, CHUNK)
        *lines, self._news = (self._news + chunk).split(b"\n")
        for line in lines:
            news = json.loads(line)
            self.heard.pid = news.get("pid", self.heard.pid)
            self.heard.error = news.get("error", self.heard.error)
            self.heard.code = news.get("code", self.heard.code)
        if not chunk:
            self._selector.unregister(self._status)

    def _read_stream(self, handle: int) -> None:
        chunk = os.read(handle, CHUNK)
        if chunk:
            self._streams[handle].feed(chunk)
        else:
            self._selector.unregister(handle)
            self._streams[handle].close()

    def _look(self, raw: bytes, complete: bool) -> None:
        """A line may say that the flow's step is complete; any other JSON object may be the result."""
        said = step_signal(raw, complete)
        if said is None:
            self.heard.result.look(raw, complete)
        elif not self._muted:
            try:
                self._port.complete_step(said["summary"], said.get("handoff"), said.get("blockers"))
            except Stopped:
                self._muted = True
            except ValueError as error:
                self._say(f"The step was not said to be complete: {error}", "status")

    def _printed(self, text: str) -> None:
        if self._allowance.admits(text):
            self._say(text, "output")

    def _complained(self, text: str) -> None:
        self.heard.last_complaint = text.strip() or self.heard.last_complaint
        if self._allowance.admits(text):
            self._say(text, "output", {"stream": "stderr"})

    def _say(self, text: str, kind: str, data: dict[str, str] | None = None) -> None:
        """Once the attempt is over for this worker its words are dropped; it is read on, so that it can end."""
        if self._muted:
            return
        try:
            self._port.say(text, kind, data)
        except Stopped:
            self._muted = True

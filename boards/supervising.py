"""One tree of processes: starts them, hands on what they print, restarts what dies, ends all of it together.

It owns the life of the children of `manage.py up` and knows neither Django nor what they do. A child runs under
`main` below, in the same process: a thread there holds a pipe from the parent, so that nobody outlives a parent that
was killed (parent-death signals exist on Linux only, and follow a thread).
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

TICK_S = 0.1
MANY_DEATHS = 5
WINDOW_S = 60.0  # so many deaths within it are "quickly": the child is not going to live
FIRST_DELAY_S = 0.5  # doubled by each further death within the window
MARGIN_S = 15.0  # on top of the grace, before a child that was asked to end is killed
HURRY_S = 5.0  # the same after a second request to stop

Say = Callable[[str, str], None]  # name of the child ("up" for the tree itself), one line of text


@dataclass(frozen=True)
class Program:
    """One child: `words` is a module or the path of a `.py` file, then its arguments; `fds` are handed down.

    `delay_s`: how long its first start waits, so that the others have the processors first.
    """

    name: str
    words: Sequence[str]
    env: Mapping[str, str]
    fds: tuple[int, ...] = ()
    delay_s: float = 0.0


@dataclass
class Deaths:
    """When a child that ended by itself is started again, and when that has become pointless."""

    seen: list[float] = field(default_factory=list)

    def next_start(self, now: float) -> float | None:
        """Note a death at `now` (seconds of any steady clock): the delay before the next start, None to give up."""
        self.seen = [at for at in self.seen if now - at < WINDOW_S] + [now]
        if len(self.seen) >= MANY_DEATHS:
            return None
        return float(FIRST_DELAY_S * 2 ** (len(self.seen) - 1))


class Tree:
    """The children, from their start to their end. `run` belongs to the main thread; `stop` may be a signal handler."""

    def __init__(self, programs: Sequence[Program], say: Say, grace_s: float) -> None:
        self._say = say
        self._grace_s = grace_s
        # Never written to: its end is the sign. Close-on-exec by default, so no child holds the writing end.
        self._alive_read, self._alive_write = os.pipe()
        self._children = [_Child(program) for program in programs]
        self._wake = threading.Event()
        self._asked = 0

    def stop(self) -> None:
        """Ask for the end: the first time gently, the second time with little patience."""
        self._asked += 1
        self._wake.set()

    @property
    def stopping(self) -> bool:
        return self._asked > 0

    def run(self, tend: Callable[[], str]) -> str:
        """Start all and look after them until `stop`; `tend` is called at every look.

        Answers "" when it was asked to stop, or a sentence why it gave up: a child that keeps dying, or what `tend`
        answers. The children still live then: `end` comes next.
        """
        now = time.monotonic()
        for child in self._children:
            child.start_at = now + child.program.delay_s
        while not self.stopping:
            for child in self._children:
                if trouble := self._look(child):
                    return trouble
            if trouble := tend():
                return trouble
            self._wake.wait(TICK_S)
        return ""

    def end(self) -> list[str]:
        """Ask every child to end and wait for it. Answers the names of those that had to be killed."""
        for child in self._living():
            _signal(child, signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s + MARGIN_S
        hurried = False
        while self._living() and time.monotonic() < deadline:
            if self._asked > 1 and not hurried:
                hurried, deadline = True, time.monotonic() + HURRY_S
                for child in self._living():
                    _signal(child, signal.SIGTERM)
            time.sleep(TICK_S / 4)
        killed = self._living()
        for child in killed:
            _kill_group(child)
        for child in self._children:
            child.wait_for_output()
        os.close(self._alive_read)
        os.close(self._alive_write)
        return [child.program.name for child in killed]

    def _living(self) -> list[_Child]:
        return [child for child in self._children if child.lives]

    def _start(self, child: _Child) -> None:
        program = child.program
        guard = [str(self._alive_read), str(self._grace_s + MARGIN_S)]
        child.start_at = None
        child.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "boards.supervising", *guard, *program.words],
            env=dict(program.env),
            pass_fds=(*program.fds, self._alive_read),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,  # Ctrl-C in the terminal reaches the parent only
        )
        child.reader = threading.Thread(target=self._read, args=(program.name, child.process), daemon=True)
        child.reader.start()

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._say(name, line.rstrip("\n"))

    def _look(self, child: _Child) -> str:
        """Start the child again when its time has come; a sentence when it has died too often."""
        now = time.monotonic()
        if child.start_at is not None:
            if now >= child.start_at:
                self._start(child)
            return ""
        if child.lives or child.process is None:
            return ""
        how = _how(child.process.returncode)
        _kill_group(child)  # what it may have left behind in its own group
        delay = child.deaths.next_start(now)
        if delay is None:
            return f"{child.program.name} ended {MANY_DEATHS} times in a minute, the last time {how}."
        child.start_at = now + delay
        self._say("up", f"{child.program.name} ended {how}; starting it again in {delay:g} s.")
        return ""


@dataclass
class _Child:
    program: Program
    process: subprocess.Popen[str] | None = None
    reader: threading.Thread | None = None
    deaths: Deaths = field(default_factory=Deaths)
    start_at: float | None = None

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def wait_for_output(self) -> None:
        if self.process is not None and self.reader is not None:
            self.process.wait()
            self.reader.join(timeout=1)  # a grandchild may still hold the pipe


def _how(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"


def _signal(child: _Child, number: signal.Signals) -> None:
    if child.process is not None:
        child.process.send_signal(number)  # does nothing once it has been waited for


def _kill_group(child: _Child) -> None:
    if child.process is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, signal.SIGKILL)


def main() -> None:
    """Run a module or file as this process: `PIPE PATIENCE_S WORDS…`; end when the pipe's other end is gone."""
    pipe, patience_s, what, *_ = sys.argv[1:]
    threading.Thread(target=_follow_parent, args=(int(pipe), float(patience_s)), daemon=True).start()
    sys.argv = sys.argv[3:]
    if what.endswith(".py"):
        runpy.run_path(what, run_name="__main__")
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)


def _follow_parent(pipe: int, patience_s: float) -> None:
    os.read(pipe, 1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):  # nobody reads them any more, and a failing print must not spoil the ending
        os.dup2(nowhere, output)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(patience_s)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()

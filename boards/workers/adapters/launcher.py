"""Starts one program in a process group of its own, and lets nothing of it outlive the drain.

Run as `python -I -S launcher.py CONTROL STATUS GRACE_MS ARGV...`; it uses the standard library only. CONTROL
is a pipe from the drain: `t` asks for SIGTERM and, after the grace, SIGKILL; `k` for SIGKILL; its end (the
drain is gone) counts as `t`. STATUS takes one JSON line when the program started or could not, and one when
it ended (spec: 03 section 3).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

LINUX = sys.platform == "linux"
SUBREAPER, PARENT_DEATH_SIGNAL = 36, 1  # prctl
LEFTOVER_GRACE_S = 0.5  # what the program left running gets this long after SIGTERM
UNKILLABLE_S = 10.0  # a process stuck in the kernel is not waited for longer


def main(control: int, status: int, grace_s: float, argv: list[str]) -> int:
    _catch_signals()
    wakes = _child_wakes()
    _prctl(SUBREAPER, 1)  # orphans of the program become children of this process, so that none escapes
    try:
        program = subprocess.Popen(argv, start_new_session=True, preexec_fn=_die_with_parent)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _say(status, {"error": str(error), "errno": getattr(error, "errno", None) or 0})
        return 127
    _say(status, {"pid": program.pid})
    _let_go_of_output()
    code = _watch(program.pid, control, wakes, grace_s)
    _clear(program.pid)
    program.returncode = code  # it was reaped here, not by Popen
    _say(status, {"code": code})
    return 0


def _watch(pid: int, control: int, wakes: int, grace_s: float) -> int:
    """Wait until the program has ended, doing what CONTROL says; its code, negative for a signal."""
    kill_at = None
    listening = True
    while (code := _reap(pid)) is None:
        now = time.monotonic()
        if kill_at is not None and now >= kill_at:
            _signal_all(pid, signal.SIGKILL)
            kill_at = now + 0.05  # whatever was forked meanwhile
        timeout = None if kill_at is None else max(0.0, kill_at - now)
        ready = select.select([wakes, control] if listening else [wakes], [], [], timeout)[0]
        if wakes in ready:
            os.read(wakes, 4096)
        if control in ready:
            order = os.read(control, 1)
            listening = bool(order)
            if order == b"k":
                kill_at = time.monotonic()
            elif kill_at is None:
                _signal_all(pid, signal.SIGTERM)
                kill_at = time.monotonic() + grace_s
    return code


def _clear(pid: int) -> None:
    """End what the program left running: nothing of an attempt outlives it."""
    begun = time.monotonic()
    number = signal.SIGTERM
    _signal_all(pid, number)
    while _living(pid) and time.monotonic() - begun < UNKILLABLE_S:
        if number is not signal.SIGKILL and time.monotonic() - begun > LEFTOVER_GRACE_S:
            number = signal.SIGKILL
        if number is signal.SIGKILL:
            _signal_all(pid, number)
        _reap(pid)
        time.sleep(0.01)


def _reap(pid: int) -> int | None:
    """Reap every child that ended; the program's code if it was among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == pid:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _signal_all(pid: int, number: signal.Signals) -> None:
    """The program's process group, and every descendant that left it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
    for descendant in _descendants():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(descendant) != pid:
                os.kill(descendant, number)


def _living(pid: int) -> bool:
    if LINUX:
        return bool(_descendants())
    try:
        os.killpg(pid, 0)
    except OSError:
        return False
    return True


def _descendants() -> list[int]:
    """The process ids under this one, zombies left out. Empty where there is no /proc."""
    if not LINUX:
        return []
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _catch_signals() -> None:
    """The drain decides, not the terminal. Handlers, not SIG_IGN: the program would inherit that."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _nothing)


def _child_wakes() -> int:
    """A pipe that becomes readable when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, _nothing)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _nothing(number: int, frame: FrameType | None) -> None:
    """The wake-up pipe has the news."""


def _die_with_parent() -> None:
    """In the child: not enough by itself (its children would live on), but it holds if this process is
    killed.
    """
    _prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if LINUX:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _let_go_of_output() -> None:
    """The drain reads until the last holder of the program's pipes has closed them."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)


def _say(status: int, news: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # nobody is there to read it
        os.write(status, json.dumps(news).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000, sys.argv[4:]))

"""Waits for conditions; no test sleeps a fixed time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")
PATIENCE_S = 60.0  # for what takes moments; a machine of two processors may be busy with something else


def until(condition: Callable[[], Value], seconds: float = PATIENCE_S, what: str = "") -> Value:
    """The first true answer of `condition`; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what or condition}"
        time.sleep(0.01)
    return value


def slowness() -> float:
    """How much longer than by itself a process takes now that works in short bursts, as a server does: 1 or more.

    What must happen within some time of the machine's own is judged by it; nothing else may be.
    """
    took = spent = 0.0
    for _ in range(20):
        began = time.perf_counter()
        time.sleep(0.005)  # only who slept is taken before those that never do
        used = time.process_time()
        while time.process_time() - used < 0.005:
            pass
        took += time.perf_counter() - began - 0.005
        spent += time.process_time() - used
    return max(1.0, took / spent)


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    except OSError:
        return _answers(pid)
    return state not in {"Z", "X"}


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

"""Counts what came from whom within a window, in this process's memory alone: each web process has its own count.

It protects a process from being kept busy; nothing of the engines depends on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Final

_MOST_KEYS: Final = 10_000


class Throttle:
    """At most `limit` in each window of `seconds`, for each key."""

    def __init__(self, limit: int, seconds: float = 60.0) -> None:
        self.limit, self.seconds = limit, seconds
        self._counts: dict[Hashable, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def wait(self, key: Hashable) -> int:
        """Whole seconds until this key may come again; 0 where it may now."""
        with self._lock:
            begun, count = self._counts.get(key, (0.0, 0))
            left = begun + self.seconds - time.monotonic()
            return 0 if count < self.limit or left <= 0 else int(left) + 1

    def count(self, key: Hashable) -> None:
        now = time.monotonic()
        with self._lock:
            if len(self._counts) >= _MOST_KEYS and key not in self._counts:
                self._counts.clear()  # rather than grow: whoever makes up keys gains a window, no more
            begun, count = self._counts.get(key, (now, 0))
            self._counts[key] = (now, 1) if now - begun >= self.seconds else (begun, count + 1)

    def clear(self) -> None:
        with self._lock:
            self._counts.clear()

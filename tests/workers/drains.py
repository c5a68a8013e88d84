"""A drain inside the test's process, stepped until something has happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from boards.models import Board, RosterEntry, Task, TranscriptItem
from boards.workers.loop import Drain
from boards.workers.options import DrainEnd, DrainOptions
from tests.waiting import PATIENCE_S

Value = TypeVar("Value")


class InProcess:
    """A drain without its loop: `until` does passes. `lines` is what it would have printed."""

    def __init__(self, begun: bool = True, **options: Any) -> None:
        self.lines: list[str] = []
        options = {"grace_s": 0.3, "poll_s": 0.05, **options}
        self.drain = Drain(DrainOptions(**options), self.lines.append)
        self.open = begun
        if begun:
            self.drain.begin()

    def until(self, condition: Callable[[], Value], seconds: float = PATIENCE_S, calmly: bool = False) -> Value:
        """Do passes until the condition holds. `calmly`: as the drain's own loop, where no error ends a drain."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, f"not within {seconds} s; the drain said {self.lines}"
            once = self.drain.pass_once
            if not (self.drain._calmly(once) if calmly else once()):
                time.sleep(0.005)
        return value

    def until_status(self, task: Task, *statuses: str) -> Task:
        """Pass until the task has one of these statuses; answers the row."""
        self.until(lambda: Task.objects.filter(pk=task.pk, status__in=statuses).exists())
        self.until(lambda: not self.drain._work.is_writing)  # the drain knows and says it too
        return Task.objects.get(pk=task.pk)

    def finish(self) -> DrainEnd:
        """Shut down as SIGTERM does, and close."""
        self.drain.stop()
        self.until(lambda: self.drain._over())
        return self.close()

    def close(self) -> DrainEnd:
        self.open = False
        return self.drain.close(DrainEnd("closed"))


def program_entry(board: Board, code: str, name: str = "shell", **config: Any) -> RosterEntry:
    """A roster entry that runs Python code as a program."""
    return RosterEntry.objects.create(
        board=board, name=name, kind="command", config={"argv": ["{python}", "-c", code], **config}
    )


def transcript(task: Task) -> list[str]:
    return list(TranscriptItem.objects.filter(task=task.pk).order_by("pk").values_list("text", flat=True))

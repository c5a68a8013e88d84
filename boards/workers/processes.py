"""The row of a drain or sweeper by which pages know that it lives (spec: 03 section 3.6).

The beat is written by the database's clock. A row that is gone (swept away while the database was out of
reach) is made again.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from django.db.models.functions import Now

from boards import live_notices
from boards.models import Process

BEAT_S: Final = 5.0
ALIVE_WITHIN: Final = timedelta(seconds=30)  # silent for longer: it is taken for dead
VERSION: Final = "0.1.0"


@dataclass
class Presence:
    """What the row says. Change the fields, then `beat`."""

    kind: str
    id: UUID = field(default_factory=uuid4)
    boards: list[int] = field(default_factory=list)
    assignees: list[str] = field(default_factory=list)
    slots: int = 0
    busy: int = 0
    listening: bool = False
    _told: dict[str, Any] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return socket.gethostname()

    def register(self) -> None:
        """Write the row and let pages know."""
        Process.objects.create(
            id=self.id, kind=self.kind, host=self.host, pid=os.getpid(), version=VERSION, **self._facts()
        )
        self._tell()

    def beat(self) -> None:
        """Say that the process lives. Pages are told where anything but the time has changed."""
        facts = self._facts()
        if not Process.objects.filter(pk=self.id).update(beat_at=Now(), stopped_at=None, **facts):
            self.register()
        elif facts != self._told:
            self._tell()

    def swept(self) -> None:
        """A pass of this sweeper has ended. Nobody is told: nothing that pages show depends on it."""
        Process.objects.filter(pk=self.id).update(swept_at=Now())

    def sign_off(self) -> None:
        """The process is about to end."""
        Process.objects.filter(pk=self.id).update(beat_at=Now(), stopped_at=Now(), busy=0)
        self._tell()

    def _facts(self) -> dict[str, Any]:
        return {
            "boards": self.boards,
            "assignees": self.assignees,
            "slots": self.slots,
            "busy": self.busy,
            "listening": self.listening,
        }

    def _tell(self) -> None:
        self._told = self._facts()
        live_notices.changed(None, process=True)

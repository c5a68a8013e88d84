"""Which boards and assignees a drain serves, and how much it has room for (spec: 03 sections 1-2).

Reads only. It serves roster entries that run in a drain and that this host can run, and the tasks that fall
to a board's `default_worker`. A Python worker that is not registered here is left alone: another drain may have it,
or it is there after the next deploy.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid4

from django.db.models.functions import Now

from boards.models import Board, Process, RosterEntry, Task
from boards.states import Status
from boards.tasks import Wanted
from boards.workers.adapters import Adapter
from boards.workers.processes import ALIVE_WITHIN

FRESH_S: Final = 1.0  # how long what was read of boards and rosters is believed
SHOWN: Final = 6
Place = tuple[int, str]  # board id and assignee


@dataclass
class Roster:
    """The boards named by `slugs` (none: all) with the entries that `adapters` (by kind) can run here."""

    adapters: dict[str, Adapter]
    slugs: Sequence[str] = ()
    passes: bool = False  # whether boards that work only when a pass is asked for are served too
    drain_id: UUID = field(default_factory=uuid4)
    boards: dict[int, Board] = field(default_factory=dict)
    entries: dict[Place, RosterEntry] = field(default_factory=dict)
    fallbacks: dict[Place, RosterEntry] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)  # ids of all boards that were there at the last look
    present: list[str] = field(default_factory=list)
    lacking: set[str] = field(default_factory=set)  # names whose tasks are left alone: there is no worker for them here
    unserved: dict[int, set[str]] = field(default_factory=dict)  # of these, by board, what no living drain serves
    _read_at: float = float("-inf")
    _told: set[str] = field(default_factory=set)

    def refresh(self, *, at_once: bool = False, ahead: bool = False) -> None:
        """Read boards and rosters again, where what is known is older than a second or `at_once` is asked. `ahead`: for
        who has nothing better to do, so that the next task does not wait for it.
        """
        now = time.monotonic()
        if not at_once and now - self._read_at < (FRESH_S / 2 if ahead else FRESH_S):
            return
        boards = list(Board.objects.with_version().select_related("space").order_by("pk"))
        self.known = {board.pk for board in boards}
        self.boards = {
            board.pk: board
            for board in boards
            if (not self.slugs or board.slug in self.slugs) and (self.passes or board.dispatches)
        }
        self._read_entries()
        self._read_fallbacks()
        self._read_at = now

    def entry_for(self, task: Task) -> RosterEntry | None:
        """The roster entry that works this task here."""
        place = (task.board_id, task.assignee)
        return self.entries.get(place) or self.fallbacks.get(place)

    def wanted(self, boards: Iterable[int], running: Counter[int], free: int) -> list[Wanted]:
        """Room on these boards: at most `free` in all, and of each board what its `concurrency` leaves."""
        room = {pk: min(free, self.boards[pk].concurrency - running[pk]) for pk in boards if pk in self.boards}
        slots: dict[int, dict[str, int]] = {}
        for pk, name in (*self.entries, *self.fallbacks):
            if room.get(pk, 0) > 0:
                slots.setdefault(pk, {})[name] = room[pk]
        return [Wanted(pk, names, room[pk], self.boards[pk]) for pk, names in sorted(slots.items())]

    def words(self) -> str:
        """Whom this drain serves, and whom it cannot, in a line."""
        able = sorted({name for pk, name in self.entries if f"{pk}:{name}" in self.present})
        parts = [f"serves {_some(able)}" if able else "serves nobody yet: no roster names a worker of this host"]
        return "; ".join([*parts, *self.news()])

    def news(self) -> list[str]:
        """Whom it has no worker for, each name once."""
        fresh = sorted(self.lacking - self._told)
        self._told |= self.lacking
        return [f"has no worker for {_some(fresh)}: such tasks wait for a drain that has one"] if fresh else []

    def _read_entries(self) -> None:
        inline = RosterEntry.objects.filter(board__in=self.boards, kind__in=self.adapters)
        able = {entry: self.adapters[entry.kind].can_run(entry.config) for entry in inline}
        elsewhere = self._served_elsewhere() if not all(able.values()) else set()
        # A program that no host has is taken nevertheless, so that its task fails with a sentence and does not wait
        # for ever. A Python worker comes with its app: its tasks stay Ready, and the page says that nobody serves it.
        self.entries = {
            (entry.board_id, entry.name): entry
            for entry, runs_here in able.items()
            if runs_here or (entry.kind == RosterEntry.Kind.COMMAND and _pair(entry) not in elsewhere)
        }
        self.lacking = {entry.name for entry in able if (entry.board_id, entry.name) not in self.entries}
        self.unserved = {}
        for entry in able:
            if (entry.board_id, entry.name) not in self.entries and _pair(entry) not in elsewhere:
                self.unserved.setdefault(entry.board_id, set()).add(entry.name)
        self.present = sorted(_pair(entry) for entry, runs_here in able.items() if runs_here)

    def _served_elsewhere(self) -> set[str]:
        alive = Process.objects.filter(kind=Process.Kind.DRAIN, stopped_at=None, beat_at__gt=Now() - ALIVE_WITHIN)
        others = alive.exclude(pk=self.drain_id).values_list("assignees", flat=True)
        return {pair for pairs in others for pair in pairs}

    def _read_fallbacks(self) -> None:
        """Tasks without an assignee, or with one that is on no roster, go to the board's default worker."""
        self.fallbacks = {}
        for board in self.boards.values():
            entry = self.entries.get((board.pk, board.default_worker))
            if entry is not None:
                for name in ("", *_strangers(board)):
                    self.fallbacks[(board.pk, name)] = entry
                if _pair(entry) in self.present:
                    self.present.append(f"{board.pk}:")


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _pair(entry: RosterEntry) -> str:
    """As a process row names it: "board:assignee"."""
    return f"{entry.board_id}:{entry.name}"


def _strangers(board: Board) -> list[str]:
    """Assignees of claimable tasks that the roster no longer names."""
    known = RosterEntry.objects.filter(board=board).values("name")
    live = Task.objects.filter(board=board, status__in=[Status.PENDING, Status.IN_PROGRESS])
    strangers = live.exclude(assignee="").exclude(assignee__in=known).order_by().values_list("assignee", flat=True)
    return list(strangers.distinct()[:50])

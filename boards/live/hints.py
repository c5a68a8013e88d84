"""What pages are told in a word, to read a part of themselves again: their count, the home page, a run, who works.

Each has its own pace, because each costs every page a request: counts and home three times a second, runs five times,
who works every two seconds. Nothing here reads the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from boards.live.pace import FOLD_S, Pace
from boards.live.page import Page, Person, person
from boards.live.rendering import message
from boards.live.rooms import Rooms
from boards.queries.catchup import Missed
from boards.queries.needs_you import Counts

SPACE_S: Final = 0.35  # a row leaves every other open page within a second, its own reading included
PROCESS_S: Final = 2.0
SHARE: Final = 4  # counting may take a fifth of the reading thread's time, no more


@dataclass(frozen=True, slots=True)
class Turn:
    """What is told after one fold; false when that is nothing."""

    people: frozenset[Person] = frozenset()
    boards: frozenset[int] = frozenset()
    runs: frozenset[int] = frozenset()
    flow_boards: frozenset[int] = frozenset()
    process: bool = False

    def __bool__(self) -> bool:
        return bool(self.people or self.runs or self.flow_boards or self.process)


class Hints:
    """Collects until it is their turn."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._uncounted: set[Person] = set()
        self._stirred: set[int] = set()
        self._runs: set[int] = set()
        self._flow_boards: set[int] = set()
        self._process = False
        self._space, self._run, self._work = Pace(SPACE_S), Pace(FOLD_S), Pace(PROCESS_S)

    def count(self, sockets: Iterable[Page]) -> None:
        """These pages' counts have to be read."""
        self._uncounted.update(person(socket) for socket in sockets)

    def note(self, missed: Mapping[int, Missed]) -> None:
        """What the log says, by board."""
        self._flow_boards |= self._rooms.flow_boards() & missed.keys()
        for board_id, one in missed.items():
            self._runs |= self._rooms.live_runs() if one.too_many else one.run_ids
            if not one.quiet:
                self._stirred.add(board_id)

    def note_runs(self, run_ids: Iterable[int]) -> None:
        self._runs.update(run_ids)

    def note_process(self) -> None:
        self._process = True

    def next_at(self) -> float:
        """When the earliest of them may be told; infinite when there is nothing to tell."""
        moments = [float("inf")]
        if self._uncounted or self._stirred:
            moments.append(self._space.next_at)
        if self._runs or self._flow_boards:
            moments.append(self._run.next_at)
        if self._process:
            moments.append(self._work.next_at)
        return min(moments)

    def take(self, now: float) -> Turn:
        """What may be told now. Taken after the log was read, so that nothing older is left for a later turn."""
        turn = Turn()
        if (self._uncounted or self._stirred) and self._space.is_due(now):
            stirred = {person(one) for one in self._rooms.all if self._stirred & one.subscription.boards}
            turn = replace(turn, people=frozenset(self._uncounted | stirred), boards=frozenset(self._stirred))
            self._uncounted, self._stirred = set(), set()
            self._space.took(now)
        if (self._runs or self._flow_boards) and self._run.is_due(now):
            turn = replace(turn, runs=frozenset(self._runs), flow_boards=frozenset(self._flow_boards))
            self._runs, self._flow_boards = set(), set()
            self._run.took(now)
        if self._process and self._work.is_due(now):
            turn, self._process = replace(turn, process=True), False
            self._work.took(now)
        return turn

    def put_back(self, turn: Turn) -> None:
        self._uncounted |= turn.people
        self._stirred |= turn.boards
        self._runs |= turn.runs
        self._flow_boards |= turn.flow_boards
        self._process = self._process or turn.process

    def counted(self, now: float, seconds: float) -> None:
        """Counting took so long, and may take no more than its share."""
        self._space.took(now, SHARE * seconds)

    def tells(self, turn: Turn, counts: Mapping[Person, Counts], cursor: str) -> Iterator[tuple[Page, str]]:
        """Who is told what. A page without a board goes on from the cursor that comes with its hint."""
        for socket in list(self._rooms.all):
            if head := self._head(socket, turn, counts, cursor):
                yield socket, message(**head)

    def _head(self, socket: Page, turn: Turn, counts: Mapping[Person, Counts], cursor: str) -> dict[str, Any]:
        page, is_live = socket.subscription, socket in self._rooms.live
        count = counts.get(person(socket))
        counted = count is not None and count != socket.told_count
        stirred = is_live and bool(turn.boards & page.boards)
        runs = [page.run_id] if is_live and page.run_id in turn.runs else []
        flows = [page.flow_id] if is_live and page.flow_board in turn.flow_boards else []
        changed = {
            "needs": stirred or (counted and socket.told_count is not None),
            "home": stirred and page.home,
            "runs": runs,
            "flows": flows,
            "process": is_live and turn.process and page.lanes is not None,
        }
        if counted:
            socket.told_count = count
        head: dict[str, Any] = {"needs": count.blocking, "reads": count.to_read} if count and counted else {}
        if any(changed.values()):
            head["changed"] = {name: value for name, value in changed.items() if value}
        if page.board_id is None and (runs if page.run_id else flows if page.flow_id else stirred):
            head["cursor"] = cursor
        return head

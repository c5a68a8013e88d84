"""Which pages are open: all sockets, those that are caught up and seen, and who looks at what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from boards.live.page import Page, Pages
from boards.queries.subscriptions import Lanes


class Rooms:
    """`live` sockets hear each change. One that has just joined, or is hidden, first asks for what it missed."""

    def __init__(self) -> None:
        self.all: set[Page] = set()
        self.live: set[Page] = set()
        self.interest: frozenset[int] = frozenset()  # the boards whose changes concern anybody

    def add(self, socket: Page) -> None:
        self.all.add(socket)
        self.interest |= socket.subscription.boards

    def remove(self, socket: Page) -> None:
        self.live.discard(socket)
        self.all.discard(socket)
        self.interest = frozenset().union(*{one.subscription.boards for one in self.all})

    def live_runs(self) -> set[int]:
        """The runs that somebody looks at."""
        return {socket.subscription.run_id for socket in self.live if socket.subscription.run_id is not None}

    def flow_boards(self) -> set[int]:
        """The boards of the flows that somebody looks at."""
        return {socket.subscription.flow_board for socket in self.live if socket.subscription.flow_board is not None}

    def on_lanes(self, board_ids: Iterable[int]) -> dict[int, dict[Lanes, Pages]]:
        """The live pages of these boards, by what they show of it."""
        found: dict[Lanes, list[Page]] = defaultdict(list)
        for socket in self.live:
            if lanes := socket.subscription.lanes:
                found[lanes].append(socket)
        return {
            board_id: {lanes: tuple(sockets) for lanes, sockets in found.items() if lanes.board_id == board_id}
            for board_id in board_ids
        }

    def on_tasks(self, board_ids: Iterable[int]) -> dict[int, dict[str, Pages]]:
        """The live pages of single tasks of these boards, by the task's id."""
        found: dict[tuple[int, str], list[Page]] = defaultdict(list)
        for socket in self.live:
            page = socket.subscription
            if page.task_board is not None:
                found[page.task_board, page.task_id].append(socket)
        return {
            board_id: {task_id: tuple(sockets) for (on, task_id), sockets in found.items() if on == board_id}
            for board_id in board_ids
        }

    def of_user(self, user_ids: frozenset[int]) -> list[Page]:
        return [socket for socket in self.all if socket.subscription.user_id in user_ids]

    def of_board(self, board_id: int) -> list[Page]:
        return [socket for socket in self.all if board_id in socket.subscription.boards]

"""What a page may hear of: the one check behind the socket's handshake and `/live/status` (spec: 08 section 1.1).

Reads only. A page names what it shows by ids; the answer is a value that says whose changes concern it, or nothing
where the user may not see all of it, which reads the same as what does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from django.conf import settings

from boards import actors
from boards.models import Board, Flow, FlowRun, Member
from boards.queries.filters import BoardFilter
from boards.queries.partitions import may_look_at
from boards.tasks.partitions import partition_of

LONGEST: Final = 4_000  # characters of all the names and values together
_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Lanes:
    """A board's cards as one filter shows them in one language; equal ones share every message."""

    board_id: int
    filters: BoardFilter
    language: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one page shows. `boards`: all boards of the space, whose changes move its home page and its count."""

    user_id: int
    space_id: int
    boards: frozenset[int]
    lanes: Lanes | None = None
    task_board: int | None = None
    task_id: str = ""
    run_id: int | None = None
    home: bool = False
    flow_id: int | None = None
    flow_board: int | None = None  # where its runs and their tasks are logged

    @property
    def board_id(self) -> int | None:
        """The board that it has to hear of task by task."""
        return self.lanes.board_id if self.lanes else self.task_board


def subscribe(user_id: int, query: Mapping[str, str], current_space: object = None) -> Subscription | None:
    """The subscription that `board`, `q`, `task`, `run`, `flow`, `home` and `lang` name; None where refused.

    `board` alone is its lanes, narrowed by `q` (the page's own query string), in the `partition` that the page's
    address names, else the reader's own; with `task` it is that one task. The space is that of the board or run, else
    the one that the session shows, else the member's first.
    """
    if sum(len(name) + len(value) for name, value in query.items()) > LONGEST:
        return None
    try:
        board_id, run_id, flow_id = (_id(query.get(name, "")) for name in ("board", "run", "flow"))
    except ValueError:
        return None
    members = Member.objects.filter(user=user_id, user__is_active=True).order_by("space__name", "pk")
    spaces = list(members.values_list("space_id", flat=True))
    flow = Flow.objects.filter(pk=flow_id).values_list("space_id", "board_id").first() if flow_id else None
    of_flow = [flow[0] if flow else None] if flow_id else []
    places = {*_space_of_board(board_id), *_space_of_run(run_id), *of_flow} or {_current(spaces, current_space)}
    if len(places) != 1 or not places <= set(spaces):
        return None
    space_id = next(iter(places))
    assert space_id is not None
    lanes = _lanes(board_id, query, user_id) if board_id and not query.get("task", "") else None
    if lanes is not None and not _may_look_at(lanes, user_id):
        return None
    of_space = frozenset(Board.objects.filter(space=space_id).values_list("pk", flat=True))
    task_id = query.get("task", "") if board_id else ""
    return Subscription(
        user_id=user_id,
        space_id=space_id,
        boards=of_space,
        lanes=lanes,
        task_board=board_id if task_id else None,
        task_id=task_id,
        run_id=run_id,
        home=bool(query.get("home")),
        flow_id=flow_id,
        flow_board=flow[1] if flow else None,
    )


def _id(text: str) -> int | None:
    """A positive id; None where none is named. ValueError for anything else."""
    if not text:
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    if not 0 < number <= _MOST:
        raise ValueError(text)
    return number


def _space_of_board(board_id: int | None) -> list[int | None]:
    """One entry where a board is named; None stands for one that does not exist."""
    return [] if board_id is None else [Board.objects.filter(pk=board_id).values_list("space_id", flat=True).first()]


def _space_of_run(run_id: int | None) -> list[int | None]:
    if run_id is None:
        return []
    return [FlowRun.objects.filter(pk=run_id).values_list("flow__space_id", flat=True).first()]


def _current(spaces: list[int], wanted: object) -> int | None:
    """As `boards.web.members` chooses it."""
    if wanted in spaces:
        return next(space for space in spaces if space == wanted)
    return spaces[0] if spaces else None


def _lanes(board_id: int, query: Mapping[str, str], user_id: int) -> Lanes:
    language = query.get("lang", "")
    known = language if language in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE
    filters = BoardFilter.from_query(dict(parse_qsl(query.get("q", ""))), user_id)
    if chosen := query.get("partition", ""):
        return Lanes(board_id, filters.within(chosen, chosen=True), known)
    return Lanes(board_id, filters.within(_partition(board_id, user_id)), known)


def _partition(board_id: int, user_id: int) -> str:
    """The reader's own partition, as `boards.tasks.partitions` computes it for the pages."""
    board = Board.objects.filter(pk=board_id).exclude(partition_by=Board.PartitionBy.NONE).first()
    return "" if board is None else partition_of(actors.person(_member(board, user_id)), board)


def _may_look_at(lanes: Lanes, user_id: int) -> bool:
    """Whether the partition that the page's address named may be seen; by the same rule as the page."""
    if not lanes.filters.chosen:
        return True
    board = Board.objects.get(pk=lanes.board_id)
    return may_look_at(_member(board, user_id), board, lanes.filters.partition)


def _member(board: Board, user_id: int) -> Member:
    return Member.objects.select_related("space", "user").get(space=board.space_id, user=user_id)

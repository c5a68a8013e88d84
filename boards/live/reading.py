"""Everything that a fold needs of the database, in one call that runs in a thread (spec: 08 section 1.2 and 1.3).

It takes values and answers values: what to send to whom, where the log was read to, and what was found for boards
whose turn it is not. Notices are hints only: what changed is read from the log, by a cursor taken in the same
statement, so a lost notice is found by the next fold.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

from django.db import DatabaseError

from boards.live.page import Page, Pages, Person
from boards.live.rendering import counts_html, lanes_html, message
from boards.models import Member, Task
from boards.queries import catchup
from boards.queries.catchup import LIMIT, Missed, Refresh
from boards.queries.needs_you import Counts, needs_counts
from boards.queries.subscriptions import Lanes, Subscription

log = logging.getLogger(__name__)

NOTHING = Missed()
LOST = Missed(too_many=True, itself=True, quiet=False)  # the cursor was of no use: anything may have changed


@dataclass(frozen=True, slots=True)
class Due:
    """A board whose turn it is, what is known to have changed on it, and the sockets of its pages."""

    keys: frozenset[int] = frozenset()
    too_many: bool = False
    lanes: Mapping[Lanes, Pages] = field(default_factory=dict)
    tasks: Mapping[str, Pages] = field(default_factory=dict)

    @property
    def sockets(self) -> Pages:
        return tuple(chain.from_iterable([*self.lanes.values(), *self.tasks.values()]))


@dataclass(frozen=True, slots=True)
class Work:
    """`since`: where the log was read to, None at first. `asks`: sockets with the cursor that each page has."""

    since: str | None
    boards: frozenset[int]
    due: Mapping[int, Due]
    asks: tuple[tuple[Page, str], ...] = ()


@dataclass(slots=True)
class Outcome:
    """`missed`: what the log says, by board. `refreshed`: boards whose pages were told to read their lanes again."""

    cursor: str
    missed: dict[int, Missed]
    sends: list[tuple[Pages, str]] = field(default_factory=list)
    refreshed: set[int] = field(default_factory=set)


def read(work: Work) -> Outcome:
    """One fold. Everything is read after the cursor that goes out with it, so a change may come twice, never not."""
    outcome = _tail(work)
    made = _Made()
    for board_id, due in work.due.items():
        _tell_board(outcome, made, board_id, due)
    for cursor in {cursor for _, cursor in work.asks}:
        _answer(outcome, cursor, [socket for socket, known in work.asks if known == cursor])
    return outcome


def count(people: Iterable[Person]) -> dict[Person, Counts]:
    """How much waits on each, of those that are still members."""
    wanted = set(people)
    users, spaces = {user for user, _ in wanted}, {space for _, space in wanted}
    counts: dict[Person, Counts] = {}
    for member in Member.objects.filter(user__in=users, space__in=spaces).select_related("user", "space"):
        if (member.user_id, member.space_id) in wanted:
            with _one_board(None):
                counts[member.user_id, member.space_id] = needs_counts(member)
    return counts


class _Made:
    """What was read after one cursor: equal lanes, keys and ids are read once. Not to be used with a later cursor."""

    def __init__(self) -> None:
        self.html: Callable[[Lanes, frozenset[int]], str] = cache(lanes_html)
        self.counts: Callable[[Lanes], str] = cache(counts_html)
        self.ids: Callable[[frozenset[int], str], list[str]] = cache(_public_ids)


def _tail(work: Work) -> Outcome:
    if work.since is None:
        return Outcome(catchup.cursor(), {})
    found = catchup.changes_of(work.boards, work.since)
    if isinstance(found, Refresh):
        return Outcome(found.cursor, dict.fromkeys(work.boards, LOST))
    missed, cursor = found
    return Outcome(cursor, missed)


def _tell_board(outcome: Outcome, made: _Made, board_id: int, due: Due) -> None:
    missed = outcome.missed.get(board_id, NOTHING)
    keys = due.keys | missed.task_keys
    sends = [(due.sockets, _refresh(None))]  # stands where the board cannot be shown
    with _one_board(board_id):
        if due.too_many or missed.too_many or len(keys) > LIMIT:
            outcome.refreshed.add(board_id)
            sends = _refreshes(made, due, outcome.cursor)
        else:
            sends = _changes(made, due, keys, missed, outcome.cursor)
    outcome.sends.extend(sends)


def _refreshes(made: _Made, due: Due, cursor: str) -> list[tuple[Pages, str]]:
    of_lanes = [(sockets, _refresh(cursor, made.counts(lanes))) for lanes, sockets in due.lanes.items()]
    return [*of_lanes, *((sockets, _refresh(cursor)) for sockets in due.tasks.values())]


def _changes(made: _Made, due: Due, keys: frozenset[int], missed: Missed, cursor: str) -> list[tuple[Pages, str]]:
    sends: list[tuple[Pages, str]] = []
    for lanes, sockets in due.lanes.items() if keys or missed.itself else ():
        ids = made.ids(keys, lanes.filters.partition) if keys else []
        changed = _hints(tasks=ids, runs=sorted(missed.run_ids), process=missed.itself)
        # What happened to the board itself may have taken tasks away, which no card can say.
        html = made.html(lanes, keys) if keys else made.counts(lanes)
        sends.append((sockets, message(html, cursor=cursor, changed=changed)))
    # A page that shows a task is told that something changed under its id, and reads with its own rights.
    for task_id in _changed_ids(keys, due.tasks) if keys and due.tasks else ():
        sends.append((due.tasks[task_id], message(cursor=cursor, changed=_hints(tasks=[task_id]))))
    return sends


def _answer(outcome: Outcome, cursor: str, askers: list[Page]) -> None:
    """Tell sockets whose pages have the same cursor what each of them missed, and where it stands now."""
    found = catchup.changes_of(frozenset().union(*(socket.subscription.boards for socket in askers)), cursor)
    made = _Made()
    for page in {socket.subscription for socket in askers}:
        sockets = tuple(socket for socket in askers if socket.subscription == page)
        told = _refresh(found.cursor if isinstance(found, Refresh) else found[1])
        with _one_board(page.board_id):
            told = told if isinstance(found, Refresh) else _caught_up(made, page, *found)
        outcome.sends.append((sockets, told))


def _caught_up(made: _Made, page: Subscription, missed: dict[int, Missed], cursor: str) -> str:
    mine = {board_id: one for board_id, one in missed.items() if board_id in page.boards}
    board = mine.get(page.board_id, NOTHING) if page.board_id else NOTHING
    if board.too_many or (page.run_id and any(one.too_many for one in mine.values())):
        return _refresh(cursor)
    runs = frozenset[int]().union(*(one.run_ids for one in mine.values()))
    stirred = not all(one.quiet for one in mine.values())
    changed = _hints(
        tasks=_told_ids(made, page, board.task_keys) if board.task_keys else [],
        runs=sorted(runs) if page.lanes else [page.run_id] if page.run_id in runs else [],
        flows=[page.flow_id] if page.flow_board in mine else [],
        needs=stirred,
        home=page.home and stirred,
        process=board.itself,
    )
    html = made.html(page.lanes, board.task_keys) if page.lanes and board.task_keys else ""
    return message(html, cursor=cursor, changed=changed)


@contextmanager
def _one_board(board_id: int | None) -> Iterator[None]:
    """A board that cannot be shown keeps nobody else's pages waiting; without the database nobody is told anything."""
    try:
        yield
    except DatabaseError:
        raise
    except Exception:
        log.exception("Open pages could not be told of a change (board %s)", board_id)


def _refresh(cursor: str | None, html: str = "") -> str:
    return message(html, cursor=cursor, refresh=True, changed={"all": True})


def _hints(**hints: Any) -> dict[str, Any]:
    return {name: value for name, value in hints.items() if value}


def _public_ids(keys: frozenset[int], partition: str) -> list[str]:
    found = Task.objects.filter(pk__in=keys, partition=partition)
    return sorted(set(found.values_list("public_id", flat=True)))


def _told_ids(made: _Made, page: Subscription, keys: frozenset[int]) -> list[str]:
    if page.lanes:
        return made.ids(keys, page.lanes.filters.partition)
    return sorted(_changed_ids(keys, {page.task_id}))


def _changed_ids(keys: frozenset[int], ids: Iterable[str]) -> set[str]:
    return set(Task.objects.filter(pk__in=keys, public_id__in=list(ids)).values_list("public_id", flat=True))

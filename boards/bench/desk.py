"""The board that is measured: one space, one operator, one roster, filled by the engine's verbs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar

from django.db import connection

from boards import actors, tasks
from boards.actors import Chain
from boards.bench.workers import NOTHING, TELLS
from boards.models import Board, Member, Role, RosterEntry, Space, Task, User
from boards.states import LIVE
from boards.tasks import Filing

Item = TypeVar("Item")

AGENT, TELLER = "agent", "teller"
BATCH = 1_000
SLOTS = 200
LOOK_S = 0.05
PATIENCE_S = 60.0  # without a task ending, after which a measurement is given up


class Desk:
    """A board in the current database with two agents that do nothing. Paused, until `measured` lets it go."""

    def __init__(self, slug: str = "bench") -> None:
        operator = _operator()
        self.chain: Chain = actors.person(operator)
        self.board = Board.objects.create(
            space=operator.space,
            slug=slug,
            name=slug,
            concurrency=SLOTS,
            max_enqueued_tasks=None,
            max_total_tasks=None,
            paused=True,
        )
        for name, worker in ((AGENT, NOTHING), (TELLER, TELLS)):
            RosterEntry.objects.create(board=self.board, name=name, kind="python", config={"worker": worker})

    def file(self, filings: Iterable[Filing]) -> list[Task]:
        return [
            task
            for part in in_parts(filings, BATCH)
            for task in tasks.file_tasks(self.chain, self.board, part, allow_same=True)
        ]

    def simple(self, count: int) -> Iterator[Filing]:
        return (Filing(goal=f"Measure {n}", assignee=AGENT) for n in range(count))

    def measured(self, count: int) -> float:
        """Let the drains go until the board has nothing left; tasks a second, by the database's clock."""
        began = _now()
        tasks.set_paused(self.chain, self.board, False)
        self._wait()
        ended = Task.objects.filter(board=self.board).order_by("-completed_at").values_list("completed_at", flat=True)
        last = ended.exclude(completed_at=None)[0]
        tasks.set_paused(self.chain, self.board, True)
        assert last is not None
        return count / (last - began).total_seconds()

    def _wait(self) -> None:
        """Looks cheaply: what a look costs the server is missing to what is measured."""
        open_rows = Task.objects.filter(board=self.board, status__in=sorted(LIVE))
        left, deadline = -1, time.monotonic() + PATIENCE_S
        while open_rows.exists():
            if time.monotonic() > deadline:
                now_left = open_rows.count()
                if now_left == left:
                    raise RuntimeError(f"No task ended for {PATIENCE_S:.0f} s, and {left} are left.")
                left, deadline = now_left, time.monotonic() + PATIENCE_S
            time.sleep(LOOK_S)


def in_parts(items: Iterable[Item], size: int) -> Iterator[Sequence[Item]]:
    left = iter(items)
    while part := list(islice(left, size)):
        yield part


def _operator() -> Member:
    space, made = Space.objects.get_or_create(slug="bench", defaults={"name": "Bench"})
    if not made:
        return Member.objects.select_related("space", "user").get(space=space)
    user = User.objects.create(username="operator")
    return Member.objects.create(space=space, user=user, role=Role.OPERATOR)


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("select clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now

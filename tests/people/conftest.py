"""The cast of the people tests: a board with two agents; Anna and Ben are members, Olga operates; a worker asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from boards import people, tasks
from boards.actors import Chain
from boards.models import Board, Debt, Hold, Member, Role, Space, Task
from boards.tasks import Claimed
from boards.workers.protocol import WORKERS
from tests import cast
from tests.workers.drains import InProcess


@dataclass
class Desk:
    space: Space
    board: Board
    members: dict[str, Member]

    def chain(self, name: str) -> Chain:
        return cast.chain_of(self.members[name])

    @property
    def anna(self) -> Chain:
        return self.chain("anna")

    def member(self, name: str, role: str = Role.MEMBER) -> Member:
        made = cast.make_member(self.space, name, role)
        self.members[name] = made
        return made

    def lets_settle(self, name: str, seconds: int) -> None:
        people.set_settle_time(self.chain(name), seconds)

    def working(self, **fields: Any) -> Claimed:
        cast.filed(self.board, self.anna, **fields)
        return cast.claimed(self.board)

    def asked(self, kind: str = "approval", *, suspended: bool = True, **question: Any) -> Hold:
        """A question of a running attempt, whose turn is over unless told otherwise."""
        got = self.working()
        ask = {"prompt": "Shall it go out?", "draft": "Dear all" if kind in {"approval", "gate"} else None, **question}
        hold = people.open_hold(cast.agent_chain(self.board), claim=got.ticket, kind=kind, **ask)
        if suspended:
            people.suspend(got.ticket)
        return hold

    def answered(self, hold: Hold, choice: str = "approve", *, by: str = "anna", **said: Any) -> Hold:
        return people.answer_hold(self.chain(by), hold.pk, choice=choice, shown_hash=hold.draft_hash, **said)


@pytest.fixture
def desk(db: None) -> Desk:
    space = cast.make_space()
    made = Desk(space, cast.make_board(space), {})
    for name, role in (("anna", Role.MEMBER), ("ben", Role.MEMBER), ("olga", Role.OPERATOR)):
        made.member(name, role)
    return made


@pytest.fixture
def settled() -> Callable[[Hold], None]:
    """Let the settle time of an answer pass: all that lies ahead because of it lies behind."""

    def pass_by(hold: Hold) -> None:
        span = timedelta(seconds=11)
        Hold.objects.filter(pk=hold.pk, settles_at__isnull=False).update(settles_at=F("settles_at") - span)
        Task.objects.filter(pk=hold.task_id, resume_ready_at__isnull=False).update(
            resume_ready_at=F("resume_ready_at") - span
        )
        Task.objects.filter(pk=hold.task_id, not_before__isnull=False).update(not_before=F("not_before") - span)
        Debt.objects.filter(due_at__gt=Now()).update(due_at=F("due_at") - span)

    return pass_by


@pytest.fixture
def drain() -> Iterator[Callable[..., InProcess]]:
    """Make a drain; those that a test leaves open are closed after it, and the workers it registered are forgotten."""
    before = dict(WORKERS)
    made: list[InProcess] = []

    def make(**options: Any) -> InProcess:
        made.append(InProcess(**options))
        return made[-1]

    yield make
    for one in made:
        if one.open:
            one.close()
    WORKERS.clear()
    WORKERS.update(before)


def handed_in(desk: Desk, output: Any = None, **fields: Any) -> Task:
    """A task whose writer has handed it in."""
    got = desk.working(**fields)
    tasks.complete(cast.agent_chain(desk.board), got.task, output or {"text": "Words"}, claim=got.ticket)
    return cast.fresh(got.task)

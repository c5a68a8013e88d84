"""Who and what the live tests are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import transaction

from boards import actors, tasks
from boards.actors import Chain
from boards.models import Board, Member, Space, Task, User


@dataclass(frozen=True)
class Cast:
    """Anna may read the board `release`; the stranger belongs to another space and its board."""

    space: Space
    board: Board
    anna: User
    stranger: User
    elsewhere: Board

    @property
    def chain(self) -> Chain:
        return actors.person(Member.objects.select_related("space", "user").get(user=self.anna))

    def file(self, public_id: str, **fields: object) -> Task:
        return tasks.file_task(self.chain, self.board, id=public_id, goal=f"Do {public_id}", allow_same=True, **fields)


@contextmanager
def rolled_back() -> Iterator[None]:
    """A transaction, or a savepoint in one, that ends in a rollback."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)

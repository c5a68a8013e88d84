"""The cast of the task pages' tests: a board with two agents, and its people; every row is made by a verb."""

from __future__ import annotations

from typing import Any

from django.test import Client

from boards import tasks
from boards.models import Member, Role, Task
from tests import cast


class Desk:
    """Anna files, Ben is on the roster, Vera only reads, Olga is an operator."""

    def __init__(self) -> None:
        self.space = cast.make_space()
        self.anna = cast.make_member(self.space, "anna")
        self.ben = cast.make_member(self.space, "ben")
        self.vera = cast.make_member(self.space, "vera", Role.VIEWER)
        self.olga = cast.make_member(self.space, "olga", Role.OPERATOR)
        self.board = cast.make_board(self.space)
        cast.put_on_roster(self.board, self.ben)
        self.chain = cast.chain_of(self.anna)

    def client(self, member: Member | None = None, *, htmx: bool = False) -> Client:
        """Signed in as the member, Anna where none is named."""
        client = Client(headers={"hx-request": "true"} if htmx else {})
        client.force_login((member or self.anna).user)
        return client

    def filed(self, **fields: Any) -> Task:
        return cast.filed(self.board, self.chain, **fields)

    def worked(self, task: Task, output: Any = "Done.") -> Task:
        """The writer takes the task and hands it in."""
        claimed = cast.claimed(self.board)
        assert claimed.task.pk == task.pk
        tasks.complete(cast.agent_chain(self.board), task, output, claim=claimed.ticket)
        return task

    def handed_in(self, **fields: Any) -> Task:
        return self.worked(self.filed(checker="person", **fields))

    def failed(self, task: Task, error: str = "There is no such file.") -> Task:
        claimed = cast.claimed(self.board)
        assert claimed.task.pk == task.pk
        tasks.fail(cast.agent_chain(self.board), task, error, claim=claimed.ticket)
        return task

    def stuck(self, **fields: Any) -> Task:
        return self.failed(self.filed(**fields))

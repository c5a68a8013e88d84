"""The cast of the task pages' tests: a board with two agents, and its people; every row is made by a verb."""

from __future__ import annotations

import re
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


def fields_of(page: str) -> dict[str, object]:
    """What the form of the page would send untouched (the token aside)."""
    html = page[page.index('<form class="form-page') :]
    sent: dict[str, object] = dict(re.findall(r'<input type="hidden" name="(was-\w+)" value="(\w*)"', html))
    for tag in re.findall(r"<input[^>]*>", html):
        name = re.search(r'name="(\w+)"', tag)
        if name and "hidden" not in tag and "disabled" not in tag and "checkbox" not in tag and name[1] != "deps":
            value = re.search(r'value="([^"]*)"', tag)
            sent[name[1]] = value[1] if value else ""
    for name, rest, text in re.findall(r'<textarea[^>]*name="(\w+)"([^>]*)>([^<]*)</textarea>', html):
        if "disabled" not in rest:
            sent[name] = text.replace("&quot;", '"').replace("&amp;", "&")
    for name, rest, options in re.findall(r'<select[^>]*name="(\w+)"([^>]*)>(.*?)</select>', html, re.DOTALL):
        if "disabled" not in rest:
            chosen = re.search(r'value="([^"]*)" selected', options)
            sent[name] = chosen[1] if chosen else ""
    sent["deps"] = re.findall(r'name="deps"[^>]*value="([^"]+)"', html)
    return sent

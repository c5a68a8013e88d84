"""A result is decided once, whoever checks it, over whatever surface, at the same instant (spec: 04, 2.1 and 5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from boards import errors, tasks
from boards.models import Event, Member, Task
from tests import cast
from tests.people.conftest import Desk
from tests.racing import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

ROUNDS, THREADS = 15, 12
WORDS = "Name the authors."

Surface = Callable[[Member, Client, Task], str]


def accepts(member: Member, client: Client, task: Task) -> str:
    tasks.accept(cast.chain_of(member), task, shown=1)
    return "accepted"


def sends_back(member: Member, client: Client, task: Task) -> str:
    tasks.send_back(cast.chain_of(member), task, WORDS, shown=1)
    return "sent back"


def by_a_page(verb: str, done: str, **form: str) -> Surface:
    def decide(member: Member, client: Client, task: Task) -> str:
        address = f"/b/{task.board.slug}/t/{task.public_id}/{verb}"
        told = {"shown": "1", "words": f"{WORDS} {member.pk}", **form}
        response = client.post(address, told, headers={"HX-Request": "true"})
        if response.status_code == 409:
            said = response.content.decode() + response.headers.get("HX-Trigger", "").encode().decode("unicode_escape")
            assert re.search(r"Member\d+ (accepted this|sent this back) at \d\d:\d\d UTC", said), said
            return "told who was faster"
        assert response.status_code in {200, 204}, response.content
        return done

    return decide


SURFACES: tuple[Surface, ...] = (
    accepts,
    by_a_page("send_back", "sent back", **{"from": "list"}),
    by_a_page("accept", "accepted", **{"from": "list"}),
    sends_back,
    by_a_page("accept", "accepted"),
    by_a_page("send_back", "sent back"),
)


def test_of_twelve_at_the_same_instant_one_decides_and_the_others_hear_who(desk: Desk) -> None:
    members = [desk.member(f"member{n}") for n in range(THREADS)]
    clients = []
    for member in members:
        client = Client()
        client.force_login(member.user)
        clients.append(client)
    for number in range(ROUNDS):
        filed = cast.filed(desk.board, cast.chain_of(members[0]), f"Write {number}", checker="person")
        claim = cast.claimed(desk.board).ticket
        tasks.complete(cast.agent_chain(desk.board), filed, "The notes", claim=claim)

        def one(n: int, task: Task = filed, turn: int = number) -> Any:
            return SURFACES[(n + turn) % len(SURFACES)](members[n], clients[n], task)

        said = at_once(*[lambda n=n: one(n) for n in range(THREADS)])
        decided = [each for each in said if each in {"accepted", "sent back"}]
        refused = [each for each in said if isinstance(each, errors.AlreadyChecked)]
        assert len(decided) == 1, (number, said)
        assert said.count("told who was faster") + len(refused) == THREADS - 1, said
        assert Event.objects.filter(kind="task.checked", task=filed.pk).count() == 1
        row = cast.fresh(filed)
        assert row.status == {"accepted": "completed", "sent back": "pending"}[decided[0]]
        tasks.cancel(cast.chain_of(members[0]), row)  # the next round claims its own

"""The cast of what is told: Anna and Olga in a space, an agent that asks, a mail server, a webhook's receiver."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import people, telling
from boards.debts import paying
from boards.models import Board, Debt, Delivery, Hold, Member, Preference, Role, User
from boards.queries import catchup
from boards.queries.waiting_row import GROUPS
from boards.telling import Given
from tests import cast
from tests.telling.receivers import HookServer, MailServer


class Stage:
    """`ask` asks as the writer does; `collect` and `post` are what a sweeper does, one step at a time."""

    def __init__(self, mail: MailServer, hook: HookServer) -> None:
        self.mail, self.hook = mail, hook
        self.space = cast.make_space()
        self.anna = cast.make_member(self.space, "anna")
        self.olga = cast.make_member(self.space, "olga", Role.OPERATOR)
        for member in (self.anna, self.olga):
            User.objects.filter(pk=member.user_id).update(email=f"{member.user.username}@example.org")
            member.user.refresh_from_db()
        self.board = cast.make_board(self.space, concurrency=50)
        self.chain = cast.chain_of(self.anna)

    def tell(self, member: Member | None = None, **given: Any) -> Preference:
        """Anna wants mail, unless said otherwise."""
        wanted = {
            "email": True,
            "kinds": [group.value for group in GROUPS],
            "boards": list(Board.objects.filter(space=self.space).values_list("pk", flat=True)),
        }
        told = telling.save(member or self.anna, Given(**(wanted | given)))
        telling.collect()  # from here on the log is read
        return told

    def ask(self, prompt: str = "Which name stays?", **fields: Any) -> Hold:
        """A question on a task of its own."""
        cast.filed(self.board, self.chain, f"Work for: {prompt}")
        got = cast.claimed(self.board)
        asked = {"kind": "question", "options": [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]}
        hold = people.open_hold(cast.agent_chain(self.board), claim=got.ticket, prompt=prompt, **(asked | fields))
        people.suspend(got.ticket)
        return hold

    def collect(self) -> int:
        return telling.collect()

    def post(self) -> int:
        """Pay what is owed as if its time had come."""
        Debt.objects.filter(kind="deliver", state="owed").update(due_at=Now() - timedelta(seconds=1))
        return paying.pay_due()

    def told(self) -> int:
        self.collect()
        return self.post()

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mail.mails]

    def states(self, channel: str = "email") -> list[str]:
        return list(Delivery.objects.filter(channel=channel).order_by("at", "pk").values_list("state", flat=True))


@pytest.fixture
def mail() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.close()


@pytest.fixture
def hook() -> Iterator[HookServer]:
    server = HookServer()
    yield server
    server.close()


@pytest.fixture
def stage(transactional_db: None, mail: MailServer, hook: HookServer, settings: Any) -> Iterator[Stage]:
    catchup.forget_epoch()
    settings.EMAIL_URL, settings.SITE_URL = mail.url, "https://board.example.org"
    settings.WEBHOOK_ALLOW_HOSTS = [f"127.0.0.1:{hook.port}"]
    yield Stage(mail, hook)
    catchup.forget_epoch()

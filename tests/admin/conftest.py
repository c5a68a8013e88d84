"""The admin's cast: an operator, a member who is none, and a stranger who operates another space."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.test import Client

from boards.models import Board, Member, Role, User
from tests.cast import make_board, make_member, make_space


@dataclass
class Cast:
    board: Board
    operator: Member
    member: Member
    stranger: Member

    def client(self, who: Member) -> Client:
        client = Client()
        client.force_login(who.user)
        return client


@pytest.fixture
def cast(db: None) -> Cast:
    space, other = make_space(), make_space("elsewhere")
    people = [
        make_member(space, "olga", Role.OPERATOR),
        make_member(space, "mia", Role.MEMBER),
        make_member(other, "stig", Role.OPERATOR),
    ]
    User.objects.filter(memberships__role=Role.OPERATOR).update(is_staff=True)
    return Cast(make_board(space), *people)

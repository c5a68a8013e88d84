"""Makes the first space and its first operator where the database has none.

All of it is one transaction: a start that is killed on the way leaves nothing, and the next one begins anew. Rows of
tasks and runs are made by the engines only.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from boards.demo import release_desk, release_notes
from boards.models import Board, Member, Role, RosterEntry, Space, User

OPERATOR = "operator"


def make_if_empty(*, demo: bool, say: Callable[[str], None]) -> bool:
    """Make the first space unless there is one; answers whether it did."""
    if Space.objects.exists():
        return False
    say("Making the demo space …" if demo else "Making an empty space …")
    inputs = release_notes.inputs() if demo else None
    with transaction.atomic():
        operator = _make_operator("Tidewater" if demo else "Main")
        if demo:
            release_desk.make(operator)
            if inputs:
                release_notes.start(operator, inputs)
        else:
            _empty_board(operator)
    return True


def first_operator() -> User | None:
    """The member whom the first-run link signs in: the oldest active operator."""
    operators = User.objects.filter(is_active=True, memberships__role=Role.OPERATOR)
    return operators.order_by("pk").first()


def _make_operator(space_name: str) -> Member:
    user = User(username=OPERATOR, first_name="Operator", is_staff=True, is_superuser=True)
    user.set_unusable_password()
    user.save()
    space = Space.objects.create(slug="main", name=space_name)
    return Member.objects.create(space=space, user=user, role=Role.OPERATOR)


def _empty_board(operator: Member) -> None:
    board = Board.objects.create(space=operator.space, slug="work", name="Work")
    RosterEntry.objects.create(
        board=board, name=operator.user.username, kind=RosterEntry.Kind.PERSON, user=operator.user
    )

"""One small cast for all tests: a space, its people, its boards. Rows that could really exist, made by the verbs."""

from __future__ import annotations

from typing import Any

from boards import actors
from boards.actors import Chain
from boards.models import Board, Member, Role, RosterEntry, Space, Task, User
from boards.tasks import Claimed, Filing, Wanted, claim, file_task

WRITER, READER = "writer", "reader"
HERE: dict[str, Any] = {"drain": "11111111-1111-1111-1111-111111111111", "host": "here"}


def make_space(slug: str = "halyard") -> Space:
    return Space.objects.create(slug=slug, name=slug.title())


def make_member(space: Space, username: str = "anna", role: str = Role.MEMBER) -> Member:
    user = User.objects.create_user(username, first_name=username.title())
    return Member.objects.create(space=space, user=user, role=role)


def make_board(space: Space, slug: str = "desk", **settings: Any) -> Board:
    """A board with two Python agents, writer and reader."""
    board = Board.objects.create(space=space, slug=slug, name=slug.title(), **settings)
    for position, name in enumerate((WRITER, READER)):
        RosterEntry.objects.create(board=board, name=name, kind="python", config={"worker": name}, position=position)
    return board


def put_on_roster(board: Board, member: Member) -> RosterEntry:
    return RosterEntry.objects.create(
        board=board, name=member.user.username, kind=RosterEntry.Kind.PERSON, user=member.user, position=9
    )


def chain_of(member: Member) -> Chain:
    return actors.person(member)


def agent_chain(board: Board, name: str = WRITER) -> Chain:
    return actors.agent(name, board.space_id)


def filed(board: Board, chain: Chain, goal: str = "Write the notes", **fields: Any) -> Task:
    """A task filed by `chain`, assigned to the writer unless told otherwise."""
    filing = Filing(**{"goal": goal, "assignee": WRITER, **fields})
    return file_task(chain, board, filing, allow_same=True)


def claimed(board: Board, name: str = WRITER, lease_ms: int = 60_000) -> Claimed:
    """The next task of that agent, claimed."""
    return claim([Wanted(board.pk, {name: 1})], limit=1, lease_ms=lease_ms, claimed_by=HERE)[0]


def fresh(task: Task) -> Task:
    return Task.objects.get(pk=task.pk)

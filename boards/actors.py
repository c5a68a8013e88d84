"""The caller chain: the ordered hops that led to a write (spec: 06 section 1).

Doors build a chain from the session, the key or the process; nothing that a caller sends can add to it. The last hop
is the acting one, and events store the whole.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from boards.models import AgentKey, Member, Session, Space, User

HopKind = Literal["person", "agent", "service"]


@dataclass(frozen=True, slots=True)
class KeyRights:
    """What a key leaves of its member's rights: `scopes`, and the ids of its boards (None: every one)."""

    scopes: frozenset[str]
    boards: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Hop:
    """One link: a person (`id` = user id, `role` in the space), an agent (`id` = roster name) or a service.

    An agent that came in by a member's key has that member's `role` and the rights of the `key`; `id` names the key.
    """

    kind: HopKind
    name: str
    id: str
    role: str = ""
    key: KeyRights | None = None

    def wire(self) -> dict[str, str]:
        return {"kind": self.kind, "name": self.name, "id": self.id}


@dataclass(frozen=True, slots=True)
class Chain:
    """The hops, the space they act in, and the session that files and asks on their behalf."""

    space_id: int
    hops: tuple[Hop, ...]
    session_id: uuid.UUID | None = None
    user_id: int | None = None

    @property
    def acting(self) -> Hop:
        return self.hops[-1]

    @property
    def name(self) -> str:
        """As people read it: "Anna", or "writer for Anna"."""
        first, last = self.hops[0], self.hops[-1]
        if last.kind == "agent" and first.kind == "person":
            return f"{last.name} for {first.name}"
        return last.name if last.kind != "service" or first.kind == "service" else first.name

    @property
    def key(self) -> KeyRights | None:
        """The rights of the key that acts; None where no key does."""
        return self.acting.key

    @property
    def key_id(self) -> int | None:
        """The id of the key that acts; None where no key does."""
        return None if self.key is None else int(self.acting.id.removeprefix("key:"))

    def sees_board(self, board_id: int) -> bool:
        """Whether a board of the chain's space is there for whoever acts: a key has boards of its own."""
        return self.key is None or self.key.boards is None or board_id in self.key.boards

    def then(self, hop: Hop, session_id: uuid.UUID | None = None) -> Chain:
        """The chain with one more hop, which is then the acting one."""
        return replace(self, hops=(*self.hops, hop), session_id=session_id or self.session_id)

    def wire(self) -> list[dict[str, str]]:
        return [hop.wire() for hop in self.hops]


def person(member: Member) -> Chain:
    """The chain of a signed-in member, acting in the member's own session of the space."""
    session = member_session(member.space, member.user)
    hop = Hop("person", member.user.display, str(member.user_id), member.role)
    return Chain(member.space_id, (hop,), session.id, member.user_id)


def by_key(key: AgentKey) -> Chain:
    """The chain of an agent that shows a member's key: person → agent, in the key's own session.

    `key.member` with its user, and `key.boards`, are loaded.
    """
    member = key.member
    boards = None if key.every_board else frozenset(board.pk for board in key.boards.all())
    rights = KeyRights(frozenset(key.scopes), boards)
    hops = (
        Hop("person", member.user.display, str(member.user_id), member.role),
        Hop("agent", key.name, f"key:{key.pk}", member.role, rights),
    )
    return Chain(member.space_id, hops, key.session_id, member.user_id)


def service(name: Literal["drain", "sweeper", "flows", "operator", "demo", "checks"], space_id: int) -> Chain:
    """The chain of one of our own processes."""
    return Chain(space_id, (Hop("service", name, name),))


def agent(name: str, space_id: int, session_id: uuid.UUID | None = None) -> Chain:
    """The chain of a worker that acts on the task it claimed."""
    return Chain(space_id, _agent_hops(name), session_id)


@lru_cache(maxsize=256)
def _agent_hops(name: str) -> tuple[Hop, ...]:
    return (Hop("agent", name, name),)


def member_session(space: Space, user: User) -> Session:
    """The one session of a member in a space; made on first use, whoever comes first."""
    found = Session.objects.filter(space=space, user=user, kind=Session.Kind.MEMBER).first()
    if found:
        return found
    made, _ = Session.objects.get_or_create(
        space=space, user=user, kind=Session.Kind.MEMBER, defaults={"label": user.display}
    )
    return made

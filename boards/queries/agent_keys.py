"""A member's keys for agents, as their page shows them; never a secret, nor a hash of one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q
from django.db.models.functions import Now

from boards.models import AgentKey, Board, Member, RosterEntry, Scope

GONE_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key. `boards`: names, empty for every board; `ended`: past its time, though nobody revoked it."""

    number: int
    name: str
    prefix: str
    scopes: tuple[str, ...]
    every_board: bool
    boards: tuple[str, ...]
    made_at: datetime
    used_at: datetime | None
    expires_at: datetime | None
    old_until: datetime | None
    revoked_at: datetime | None
    revoked_by: str
    ended: bool

    @property
    def works(self) -> bool:
        return self.revoked_at is None and not self.ended


@dataclass(frozen=True, slots=True)
class KeysPage:
    live: tuple[KeyRow, ...]
    gone: tuple[KeyRow, ...]
    boards: tuple[Board, ...]
    outside: tuple[Outside, ...]


@dataclass(frozen=True, slots=True)
class Outside:
    """A board and its names that are worked from outside."""

    slug: str
    board: str
    names: tuple[str, ...]


def keys_page(member: Member) -> KeysPage:
    """The member's own keys, newest first, and the boards that one can be made for."""
    rows = [_row(key) for key in _read(member)]
    boards = Board.objects.filter(space=member.space_id).order_by("name", "pk")
    live = tuple(row for row in rows if row.works)
    gone = tuple(row for row in rows if not row.works)[:GONE_SHOWN]
    return KeysPage(live, gone, tuple(boards), _outside(member))


def _outside(member: Member) -> tuple[Outside, ...]:
    entries = RosterEntry.objects.filter(board__space=member.space_id, kind=RosterEntry.Kind.PULL)
    found: dict[tuple[str, str], list[str]] = {}
    for slug, board, name in entries.order_by("board__name", "name").values_list("board__slug", "board__name", "name"):
        found.setdefault((slug, board), []).append(name)
    return tuple(Outside(slug, board, tuple(names)) for (slug, board), names in found.items())


def find_key(member: Member, number: int) -> AgentKey | None:
    """One of the member's own; None as for what does not exist."""
    return AgentKey.objects.select_related("member").filter(member=member, pk=number).first()


def _read(member: Member) -> Any:
    rows = AgentKey.objects.filter(member=member).annotate(db_now=Now())
    return rows.filter(Q(revoked_at=None) | Q(pk__in=_revoked(member))).prefetch_related("boards").order_by("-pk")


def _revoked(member: Member) -> list[int]:
    gone = AgentKey.objects.filter(member=member, revoked_at__isnull=False).order_by("-pk")
    return list(gone.values_list("pk", flat=True)[:GONE_SHOWN])


def _row(key: Any) -> KeyRow:
    now = key.db_now
    labels = dict(Scope.choices)
    return KeyRow(
        number=key.pk,
        name=key.name,
        prefix=key.prefix,
        scopes=tuple(str(labels[scope]) for scope in key.scopes),
        every_board=key.every_board,
        boards=tuple(board.name for board in key.boards.all()),
        made_at=key.created_at,
        used_at=key.last_used_at,
        expires_at=key.expires_at,
        old_until=key.old_until if key.old_until and key.old_until > now else None,
        revoked_at=key.revoked_at,
        revoked_by=key.revoked_by_name,
        ended=key.expires_at is not None and key.expires_at <= now,
    )

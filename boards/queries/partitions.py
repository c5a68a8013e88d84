"""Which partition of a board a page shows, and whose it may be (spec: 03 section 1).

A page shows the reader's own partition unless its address names one, `/b/desk@<key>/`: one of the reader's own, or any
that an operator of the space looks at. What a reader may not see answers like what does not exist. A board that is
read through such an address carries it as its `slug`, so that every link of the page stays in the partition; such a
row is for showing only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db.models import Q, TextField
from django.db.models.functions import Cast

from boards.models import Board, BoardCounter, Member, Role, Session, User

_BY: Final = Board.PartitionBy
MARK: Final = "@"
MOST: Final = 500  # partitions that one choice offers


@dataclass(frozen=True, slots=True)
class Choice:
    """A partition to look at. `address`: what stands in the page's address; `own`: the reader's."""

    key: str
    label: str
    address: str
    own: bool


def split(address: str) -> tuple[str, str]:
    """The slug, and the key of the partition that the address names, or ""."""
    slug, _mark, key = address.partition(MARK)
    return slug, key


def address_of(slug: str, key: str) -> str:
    return f"{slug}{MARK}{key}" if key else slug


def own_rows(member: Member, field: str = "partition", board: str = "board__") -> Q:
    """Rows of boards without partitions, and of those that are the member's own (spec: 01 section 2)."""
    own = Session.objects.filter(user_id=member.user_id).annotate(text_id=Cast("pk", TextField())).values("text_id")
    return (
        Q(**{f"{board}partition_by": _BY.NONE})
        | Q(**{f"{board}partition_by": _BY.USER, field: str(member.user_id)})
        | Q(**{f"{board}partition_by": _BY.SESSION, f"{field}__in": own})
    )


def is_own(member: Member, board: Board, key: str) -> bool:
    if board.partition_by == _BY.USER:
        return key == str(member.user_id)
    if board.partition_by == _BY.SESSION:
        return len(key) == 36 and Session.objects.filter(user=member.user_id, pk=key).exists()
    return not key


def may_look_at(member: Member, board: Board, key: str) -> bool:
    """Whether an address may name this partition: one of the member's own, or for operators any that is there."""
    if not key or board.partition_by == _BY.NONE:
        return not key
    if is_own(member, board, key):
        return True
    return member.role == Role.OPERATOR and BoardCounter.objects.filter(board=board, partition=key).exists()


def choices(member: Member, board: Board) -> list[Choice]:
    """What the member may choose from: for operators every partition with a filing, for others their own such."""
    slug, _key = split(board.slug)
    if board.partition_by == _BY.NONE:
        return []
    keys = list(
        BoardCounter.objects.filter(board=board).exclude(partition="").values_list("partition", flat=True)[:MOST]
    )
    labels = _labels(board, keys)
    own = {key for key, user_id in _owners(board, keys) if user_id == member.user_id}
    offered = [key for key in keys if key in own or member.role == Role.OPERATOR]
    found = [Choice(key, labels.get(key, key), address_of(slug, key), key in own) for key in offered]
    return sorted(found, key=lambda choice: (not choice.own, choice.label.casefold(), choice.key))


def _owners(board: Board, keys: Iterable[str]) -> list[tuple[str, int | None]]:
    if board.partition_by == _BY.USER:
        return [(key, int(key)) for key in keys if key.isdecimal()]
    rows = Session.objects.filter(pk__in=[key for key in keys if len(key) == 36]).values_list("pk", "user_id")
    return [(str(pk), user_id) for pk, user_id in rows]


def _labels(board: Board, keys: list[str]) -> dict[str, str]:
    """By key, how people call it: the person, or the session's own label."""
    if board.partition_by == _BY.USER:
        people = User.objects.filter(pk__in=[int(key) for key in keys if key.isdecimal()])
        return {str(person.pk): person.display for person in people}
    sessions = Session.objects.filter(pk__in=[key for key in keys if len(key) == 36]).select_related("user")
    return {
        str(one.pk): one.label or (one.user.display if one.user else f"{one.get_kind_display()} {str(one.pk)[:8]}")
        for one in sessions
    }

"""What a reader narrowed a board to, and which tasks match it. One value for the page, its address and its socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.db.models import Q, QuerySet

from boards.models import Board, RosterEntry, Task

LONGEST = 200
NOBODY = "-"  # as an assignee: tasks without one


@dataclass(frozen=True, slots=True)
class BoardFilter:
    """`text` is looked for in title and goal, or is an id; `mine_of`: the user whose own tasks are wanted, or 0.

    `partition`: what of a partitioned board is there for the reader; `chosen`: the page's address names it.
    """

    text: str = ""
    assignee: str = ""
    mine_of: int = 0
    partition: str = ""
    chosen: bool = False

    @classmethod
    def from_query(cls, query: Mapping[str, str], user_id: int) -> BoardFilter:
        """Read `q`, `assignee` and `mine` as they stand in the address."""
        return cls(
            text=_clean(query.get("q", "")),
            assignee=_clean(query.get("assignee", "")),
            mine_of=user_id if query.get("mine") else 0,
        )

    def within(self, partition: str, *, chosen: bool = False) -> BoardFilter:
        """The same for a reader of that partition."""
        return replace(self, partition=partition, chosen=chosen)

    def query_string(self) -> str:
        """The filter as it stands in the address; empty where nothing is narrowed."""
        parts = {"q": self.text, "assignee": self.assignee, "mine": "1" if self.mine_of else ""}
        return urlencode({name: value for name, value in parts.items() if value})

    def __bool__(self) -> bool:
        return bool(self.text or self.assignee or self.mine_of)

    def apply(self, tasks: QuerySet[Task], board: Board) -> QuerySet[Task]:
        """The tasks of `board` that match."""
        if board.partition_by != Board.PartitionBy.NONE:
            tasks = tasks.filter(partition=self.partition) if self.partition else tasks.none()
        if self.text:
            found = Q(title__icontains=self.text) | Q(goal__icontains=self.text) | Q(public_id=self.text)
            tasks = tasks.filter(found)
        if self.assignee:
            tasks = tasks.filter(assignee="" if self.assignee == NOBODY else self.assignee)
        if self.mine_of:
            names = RosterEntry.objects.filter(board=board, user_id=self.mine_of).values("name")
            tasks = tasks.filter(Q(created_by_id=self.mine_of) | Q(assignee__in=names))
        return tasks


def _clean(text: str) -> str:
    """PostgreSQL takes no NUL and no lone surrogate in a text."""
    kept = "".join(sign for sign in text if sign >= " " and not "\ud800" <= sign <= "\udfff")
    return kept.strip()[:LONGEST]

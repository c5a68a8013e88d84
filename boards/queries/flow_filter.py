"""What a reader narrowed a flow's board to, and which runs match it. One value for the page and its address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef, Q

from boards.models import Hold, Task
from boards.queries.filters import LONGEST
from boards.states import HoldState, RunStatus, Status
from boards.stored_text import clean_text


@dataclass(frozen=True, slots=True)
class RunFilter:
    """`text` is looked for in the name, or is a number; `mine_of`: the user whose own runs are wanted, or 0.

    `asks`: those that wait on a person only; `archived`: those that were put away, which are hidden otherwise.
    """

    text: str = ""
    mine_of: int = 0
    asks: bool = False
    archived: bool = False

    @classmethod
    def from_query(cls, query: Mapping[str, str], user_id: int) -> RunFilter:
        """Read `q`, `mine`, `asks` and `archived` as they stand in the address."""
        return cls(
            text=clean_text(query.get("q", "")).strip()[:LONGEST],
            mine_of=user_id if query.get("mine") else 0,
            asks=bool(query.get("asks")),
            archived=bool(query.get("archived")),
        )

    def query_string(self) -> str:
        """The filter as it stands in the address; empty where nothing is narrowed."""
        parts = {
            "q": self.text,
            "mine": "1" if self.mine_of else "",
            "asks": "1" if self.asks else "",
            "archived": "1" if self.archived else "",
        }
        return urlencode({name: value for name, value in parts.items() if value})

    def __bool__(self) -> bool:
        return bool(self.text or self.mine_of or self.asks or self.archived)

    def matching(self) -> Q:
        """The condition on runs, but for the archive."""
        found = Q(pk__isnull=False)
        if self.text:
            number = self.text.removeprefix("#")
            is_number = number.isascii() and number.isdigit() and len(number) < 19
            found &= Q(name__icontains=self.text) | (Q(number=int(number)) if is_number else Q(pk__isnull=True))
        if self.mine_of:
            found &= Q(started_by=self.mine_of)
        return found & waits_on_person() if self.asks else found


def waits_on_person() -> Q:
    """Runs of which a question is open, or a task is to be checked by a person."""
    open_holds = Hold.objects.filter(state=HoldState.OPEN)
    to_check = Task.objects.filter(status=Status.NEEDS_CHECK, checker="person")
    stays = OuterRef("current_visit")
    asked = Q(Exists(open_holds.filter(visit=stays))) | Q(Exists(open_holds.filter(task__visit=stays)))
    return Q(status=RunStatus.ACTIVE) & (asked | Q(Exists(to_check.filter(visit=stays))))

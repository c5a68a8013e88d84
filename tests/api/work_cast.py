"""Outside workers on Anna's desk: `outside` is on its roster, and works by a key of hers."""

from __future__ import annotations

from typing import Any

from boards import people
from boards.models import AgentKey, Board, Hold, RosterEntry, Task
from tests import cast
from tests.api.cast import Answered, Caller, Desk

OUTSIDE = "outside"


def put_outside(board: Board, name: str = OUTSIDE, **fields: Any) -> RosterEntry:
    return RosterEntry.objects.create(board=board, name=name, kind=RosterEntry.Kind.PULL, position=5, **fields)


class Worker:
    """A program elsewhere, with a key that may work."""

    def __init__(self, desk: Desk, name: str = "codex", *scopes: str, **options: Any) -> None:
        self.desk = desk
        made: tuple[AgentKey, str] = desk.key(*(scopes or ("work",)), name=name, **options)
        self.key, self.secret = made
        self.call = Caller(self.secret)

    def __call__(self, verb: str, body: dict[str, Any], *, key: str = "") -> Answered:
        return self.call("POST", f"/work/{verb}", body, key=key)

    def claims(self, *, key: str = "", **body: Any) -> list[dict[str, Any]]:
        answer = self("claim", {"board": "desk", "host": "laptop-7", **body}, key=key)
        assert answer.status == 200, answer.body
        claimed: list[dict[str, Any]] = answer.body["claimed"]
        return claimed

    def begins(self, **body: Any) -> str:
        """Claims one and starts it; its ticket."""
        (work,) = self.claims(**body)
        started = self("start", {"ticket": work["ticket"]})
        assert started.status == 200, started.body
        return str(work["ticket"])


def work_of(desk: Desk, goal: str = "Count the boats", **fields: Any) -> Task:
    return cast.filed(desk.board, desk.chain, goal, assignee=OUTSIDE, **fields)


def answered(desk: Desk, hold: int, choice: str = "", text: str = "") -> Hold:
    shown = Hold.objects.get(pk=hold).draft_hash
    return people.answer_hold(desk.chain, hold, choice=choice, text=text, shown_hash=shown)

"""Which rows a claim may take: the boards looked at, the room for each assignee, and the arms in their order.

It locks rows and reads; what is written to them stands in `claims` (spec: 02 sections 1-2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models.functions import Now

from boards.locks import Rank, taking
from boards.models import Board, RosterEntry, Task
from boards.tasks import follow_ups, plain_rows
from boards.tasks.decisions import DEFAULT_MAX_ABANDONMENTS
from boards.tasks.types import Wanted

_OPEN = "t.unmet_deps = 0 and t.open_holds = 0"
_WAITED = "(t.not_before is null or t.not_before <= statement_timestamp())"
_READY = f"t.status = 'pending' and {_OPEN} and {_WAITED} and {follow_ups.NOBODY_OF_ITS_CHAIN_WORKS}"
# The arms of the claim, in their order: runs ready to resume, lapsed rows, ready rows. The first two name no status:
# only a row in progress has such a time (`task_lease_only_while_working`, `task_resume_only_while_working`), and naming
# it would offer the planner the index of the lanes.
ARMS = {
    "resume": (
        f"t.resume_ready_at <= statement_timestamp() and {_OPEN}",
        "t.resume_ready_at",
    ),
    "lapsed": (
        f"""t.lease_until <= statement_timestamp() and {_OPEN}
            and t.abandonments < {DEFAULT_MAX_ABANDONMENTS}""",
        "t.lease_until",
    ),
    "ready": (_READY, "t.created_at, t.pk"),
    "ready_by_priority": (_READY, "t.priority desc, t.created_at, t.pk"),
}


@dataclass(frozen=True, slots=True)
class Look:
    """A board, and which of the rarer things a claim has to see to there: what is false costs it no statement."""

    board: Board
    resumes: bool
    lapsed: bool
    capped: bool


def look_at(boards: Iterable[int]) -> dict[int, Look]:
    """The boards, as one cheap statement sees them before the claim's transaction."""
    (found,) = plain_rows.answers([look_statement(boards)])
    looks = [Look(plain_rows.read(Board, row), *row[-3:]) for row in found]
    return {look.board.pk: look for look in looks}


def look_statement(boards: Iterable[int]) -> plain_rows.Statement:
    """What `look_at` asks; its plan must not depend on how much has ended."""
    return (
        f"""select {plain_rows.columns(Board, "b")},
                  exists (select from boards_task t
                           where t.board_id = b.id and t.resume_ready_at <= statement_timestamp()),
                  exists (select from boards_task t
                           where t.board_id = b.id and t.lease_until <= statement_timestamp()),
                  exists (select from boards_rosterentry r where r.board_id = b.id and r.max_running is not null)
                from boards_board b where b.id = any(%s)""",
        [sorted(boards)],
    )


class Room:
    """Free slots per board and assignee, after what `max_running` of the roster leaves (over all drains)."""

    def __init__(self, wanted: Sequence[Wanted], boards: Mapping[int, Look], limit: int) -> None:
        self.limit = limit
        self.boards = {pk: look for pk, look in boards.items() if not look.board.paused}
        self.slots = {
            (want.board_id, name): slots
            for want in wanted
            for name, slots in want.slots.items()
            if slots > 0 and want.board_id in self.boards
        }
        self.room = {want.board_id: limit if want.limit is None else want.limit for want in wanted}
        self.partition = wanted[0].partition if wanted else None
        self._cap()

    def _cap(self) -> None:
        """Lower the slots of capped assignees by their live leases; the roster rows are locked meanwhile."""
        boards = {b for b, _ in self.slots if self.boards[b].capped}
        names = {n for b, n in self.slots if b in boards}
        taking(Rank.ROSTER)
        if not boards:
            return
        capped = list(
            RosterEntry.objects.filter(board__in=boards, name__in=names, max_running__isnull=False)
            .order_by("pk")
            .select_for_update(no_key=True)
        )
        if not capped:
            return
        live = Task.objects.filter(
            board__in={e.board_id for e in capped},
            lease_until__gt=Now(),
            claimed_by__parked__isnull=True,  # a parked turn gives its slot back
            assignee__in={e.name for e in capped},
        )
        running = Counter(live.values_list("board_id", "assignee"))
        for entry in capped:
            place = (entry.board_id, entry.name)
            if place in self.slots:
                free = max(0, (entry.max_running or 0) - running[place])
                self.slots[place] = min(self.slots[place], free)

    def wants(self, arm: str) -> list[tuple[int, str, int]]:
        if self.limit < 1:
            return []
        return [
            (board, name, slots)
            for (board, name), slots in self.slots.items()
            if slots > 0 and self._serves(arm, self.boards[board])
        ]

    @staticmethod
    def _serves(arm: str, look: Look) -> bool:
        if arm == "resume":
            return look.resumes
        if arm == "lapsed":
            return look.lapsed
        by_priority = look.board.claim_order == Board.ClaimOrder.PRIORITY
        return by_priority == (arm == "ready_by_priority")

    def use(self, board_id: int, name: str) -> bool:
        if self.limit < 1 or self.room[board_id] < 1 or self.slots.get((board_id, name), 0) < 1:
            return False
        self.limit -= 1
        self.room[board_id] -= 1
        self.slots[(board_id, name)] -= 1
        return True


def pick(arm: str, room: Room) -> list[int]:
    """Lock the next rows of one arm, skipping what others hold; answers their keys in claim order."""
    wants = room.wants(arm)
    if not wants:
        return []
    (found,) = plain_rows.answers([pick_statement(arm, wants, room.limit, room.partition)])
    chained = [key for key, _, _, has_chain in found if has_chain] if arm.startswith("ready") else []
    barred = set(chained) - follow_ups.alone(chained) if chained else set()
    return [key for key, board_id, name, _ in found if key not in barred and room.use(board_id, name)]


def pick_statement(
    arm: str, wants: Sequence[tuple[int, str, int]], limit: int, partition: str | None = None
) -> plain_rows.Statement:
    """What `pick` asks for (board, assignee, slots): one index range for each of them, whatever stands behind."""
    condition, order = ARMS[arm]
    own, param = ("", []) if partition is None else ("and t.partition = %s", [partition])
    return (
        f"""select p.pk, w.board_id, w.assignee, p.has_chain
              from unnest(%s::bigint[], %s::text[], %s::int[]) as w(board_id, assignee, slots)
              join lateral (
                select t.pk, t.follow_up_of_id is not null or t.attempts > 0 as has_chain from boards_task t
                 where t.board_id = w.board_id and t.assignee = w.assignee and {condition} {own}
                 order by {order} limit least(w.slots, %s) for no key update skip locked
              ) p on true""",
        [[w[0] for w in wants], [w[1] for w in wants], [w[2] for w in wants], *param, limit],
    )

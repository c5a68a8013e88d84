"""Claims of outside workers: code elsewhere that takes work by itself, with a key of a member (spec: 03, 2; 06, 3).

Such a worker claims for the names of a board's roster that are worked from outside, and for no others; on a board with
partitions in its own alone. A claim under an idempotency key is made once: its repeat answers the same grants, as long
as they stand. What the claim writes stands in `claims`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from boards import errors, policy
from boards.actors import Chain, Hop
from boards.locks import engine_transaction
from boards.models import Board, IdempotencyKey, RosterEntry, Task
from boards.states import LIVE
from boards.tasks import claims, cleaning, idempotency, partitions
from boards.tasks.arms import ARMS
from boards.tasks.types import Claimed, Wanted

MAX_BATCH: Final = 50
MAX_HOST: Final = 100
_STRANGERS: Final = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Where an outside worker claims: a board, the names (also "" and those on no roster), and the partition."""

    board_id: int
    names: tuple[str, ...]
    partition: str


@dataclass(frozen=True, slots=True)
class Terms:
    """Of one claim. `claimed_by`: which key, and where its worker says that it runs."""

    limit: int
    lease_ms: int | None
    claimed_by: dict[str, Any]
    idempotency_key: str = ""


def place_for(chain: Chain, board: Board, assignees: Sequence[str]) -> Place:
    """Where this caller may claim; no assignees: every name of the board that is worked from outside.

    Raises Forbidden, NoPartition, UnknownAssignee, NotAnOutsideWorkers.
    """
    policy.require(chain, "tasks.claim", board.space_id)
    kinds = dict(board.roster.values_list("name", "kind"))
    outside = [name for name, kind in kinds.items() if kind == RosterEntry.Kind.PULL]
    there = f"There is {', '.join(outside)}." if outside else "This board has none; an operator puts one on its roster."
    for name in assignees:
        if name not in kinds:
            raise errors.UnknownAssignee(
                f"“{name[:100]}” is not on the roster of {board.name}. Of outside workers: {there}", field="assignees"
            )
        if name not in outside:
            raise errors.NotAnOutsideWorkers(
                f"“{name}” is not worked from outside. Claim for an outside worker: {there}", field="assignees"
            )
    wanted = list(dict.fromkeys(assignees)) or outside
    if not wanted:
        raise errors.NotAnOutsideWorkers(f"Nobody on {board.name} is worked from outside. {there}", field="assignees")
    if board.default_worker in wanted:
        wanted += ["", *_strangers(board, kinds)]
    return Place(board.pk, tuple(wanted), partitions.partition_of(chain, board))


def _strangers(board: Board, known: dict[str, str]) -> list[str]:
    """Assignees of open tasks that the roster no longer names: they fall to the default worker."""
    live = Task.objects.filter(board=board, status__in=sorted(LIVE)).exclude(assignee="")
    found = live.exclude(assignee__in=known).order_by().values_list("assignee", flat=True)
    return list(found.distinct()[:_STRANGERS])


def claim_outside(chain: Chain, place: Place, terms: Terms, *, first: Callable[[], object]) -> list[Claimed]:
    """Take what is there, up to `limit`; empty for nothing. A repeat under the same key answers the first claim's.

    `first` is called in the claim's transaction, before its rows are locked; what it raises undoes the claim. Raises
    InvalidInput, KeyReused.
    """
    limit = cleaning.checked_int(terms.limit, "limit", 1, MAX_BATCH)
    if terms.lease_ms is not None:
        cleaning.checked_int(terms.lease_ms, "lease_ms", claims.SMALLEST_LEASE_MS, claims.LARGEST_LEASE_MS)
    key = cleaning.checked_text(terms.idempotency_key, "idempotency_key", cleaning.MAX_KEY)
    body = json.dumps([place.board_id, sorted(place.names), limit, terms.lease_ms])
    digest = hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()

    @engine_transaction
    def within(take: Callable[[], list[Claimed]]) -> list[Claimed]:
        row = idempotency.row_of(chain, "claim", key, digest)
        first()
        if row is not None and row.result is not None:
            return _again(row)
        taken = take()
        if not taken:
            raise _NothingError  # the key is kept for the claim that takes something
        if row is not None:
            grants = [[one.task.pk, one.ticket.attempt_key, one.ticket.grant_no, one.resumed] for one in taken]
            IdempotencyKey.objects.filter(pk=row.pk).update(result={"claimed": grants})
        return taken

    try:
        return claims.claim(
            [Wanted(place.board_id, dict.fromkeys(place.names, limit), partition=place.partition)],
            limit=limit,
            lease_ms=terms.lease_ms,
            claimed_by=terms.claimed_by,
            acts=lambda name, _space: worker_chain(chain, name),
            within=within,
        )
    except _NothingError:
        return []


class _NothingError(Exception):
    """There was nothing to take; takes the row of the key back with the transaction."""


def claimed_before(chain: Chain, idempotency_key: str) -> bool:
    """Whether a claim under this key has taken something, so that its repeat has not to wait."""
    if not idempotency_key:
        return False
    rows = IdempotencyKey.objects.filter(caller=idempotency.caller_of(chain), verb="claim", key=idempotency_key)
    return rows.filter(result__isnull=False).exists()


def _again(row: IdempotencyKey) -> list[Claimed]:
    """The grants of the first claim that still stand, in its order."""
    grants: list[list[Any]] = (row.result or {})["claimed"]
    tasks = Task.objects.select_related("board").in_bulk([key for key, *_ in grants])
    found = []
    for key, attempt_key, grant_no, resumed in grants:
        task = tasks.get(key)
        if task is not None and task.grant_no == grant_no and task.claimed_by is not None:
            found.append(Claimed(task, claims.mint(task, attempt_key), resumed))
    return found


def worker_chain(chain: Chain, name: str) -> Chain:
    """Person → agent by its key → the worker under its roster name, which acts with what the claim lends it."""
    return chain.then(Hop("agent", name or chain.acting.name, name or chain.acting.id))


_HERE: Final = "t.board_id = w.board_id and t.partition = w.partition and t.assignee = any(w.names)"
_ITS_OWN: Final = "t.board_id = w.board_id and t.partition = w.partition and t.assignee = n.name"
# How many more of a name may be worked, by the same leases that a claim counts.
_ROOM: Final = f"""least({MAX_BATCH}, (
    select greatest(0, r.max_running - (
               select count(*) from boards_task t
                where t.board_id = w.board_id and t.lease_until > statement_timestamp() and t.assignee = n.name
                  and not coalesce(t.claimed_by ? 'parked', false)))
      from boards_rosterentry r
     where r.board_id = w.board_id and r.name = n.name and r.max_running is not null))"""


def look(places: Sequence[Place]) -> list[tuple[int, float | None]]:
    """Of each place, in one statement: how many tasks may be taken there now, and the seconds until time alone may
    bring one (None: no moment is known). A paused board has none.

    Counts up to MAX_BATCH of each arm and name, and of a name with a limit no more than there is room for: whoever is
    called for more would ask in vain, and again.
    """
    ready = " union all ".join(
        f"(select 1 from boards_task t where {_ITS_OWN} and {condition} limit {MAX_BATCH})"
        for arm, (condition, _order) in ARMS.items()
        if arm != "ready_by_priority"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"""select case when b.paused then 0 else (
                           select coalesce(sum(ready), 0)
                             from unnest(w.names) as n(name)
                             cross join lateral (select {_ROOM}) as o(room)
                             cross join lateral (select count(*) as ready
                                                   from (select 1 from ({ready}) found limit o.room) fitting) s) end,
                       extract(epoch from least(
                           (select min(t.lease_until) from boards_task t
                             where {_HERE} and t.lease_until > statement_timestamp()),
                           (select min(t.resume_ready_at) from boards_task t
                             where {_HERE} and t.resume_ready_at > statement_timestamp()),
                           (select min(t.not_before) from boards_task t
                             where {_HERE} and t.status = 'pending' and t.unmet_deps = 0 and t.open_holds = 0
                               and t.not_before > statement_timestamp())) - statement_timestamp())
                  from unnest(%s::int[], %s::bigint[], %s::text[], %s::text[])
                       with ordinality as given(n, board_id, partition, listed, place)
                  cross join lateral (select given.board_id, given.partition,
                                             array(select jsonb_array_elements_text(given.listed::jsonb)) names) w
                  join boards_board b on b.id = w.board_id
                 order by given.n""",
            [
                list(range(len(places))),
                [each.board_id for each in places],
                [each.partition for each in places],
                [json.dumps(each.names) for each in places],
            ],
        )
        return [(int(count), None if seconds is None else float(seconds)) for count, seconds in cursor.fetchall()]

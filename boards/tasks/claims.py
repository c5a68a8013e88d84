"""Taking tasks: the batch claim, tickets, renewals, the run link, a person's claim (spec: 02 sections 1-4).

Hot statements address rows by key; the fence is a filter, never an index condition. All times are the database's.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from boards import errors, live_notices, policy
from boards.actors import Chain, agent, service
from boards.event_log import Entry, record_all
from boards.locks import Rank, engine_transaction, taking
from boards.models import Attempt, Board, RosterEntry, Task
from boards.states import Status, Verb
from boards.stored_text import clean_json_text
from boards.tasks import aftermath, decisions, plain_rows, rows
from boards.tasks.decisions import DEFAULT_MAX_ABANDONMENTS, Options
from boards.tasks.endings import Settlement, settle_many
from boards.tasks.types import Begin, Claimed, Reason, Recorded, RunLink, TaskWriteOutcome, Ticket, Wanted

SMALLEST_LEASE_MS = 1_000
LARGEST_LEASE_MS = 6_442_450_941
MAX_BATCH = 500

_OPEN = "t.unmet_deps = 0 and t.open_holds = 0"
_WAITED = "(t.not_before is null or t.not_before <= statement_timestamp())"
# The arms of the claim, in their order: runs ready to resume, lapsed rows, ready rows. The first two name no status:
# only a row in progress has such a time (`task_lease_only_while_working`, `task_resume_only_while_working`), and naming
# it would offer the planner the index of the lanes.
_ARMS = {
    "resume": (
        f"t.resume_ready_at <= statement_timestamp() and {_OPEN}",
        "t.resume_ready_at",
    ),
    "lapsed": (
        f"""t.lease_until <= statement_timestamp() and {_OPEN}
            and t.abandonments < {DEFAULT_MAX_ABANDONMENTS}""",
        "t.lease_until",
    ),
    "ready": (f"t.status = 'pending' and {_OPEN} and {_WAITED}", "t.created_at, t.pk"),
    "ready_by_priority": (
        f"t.status = 'pending' and {_OPEN} and {_WAITED}",
        "t.priority desc, t.created_at, t.pk",
    ),
}


def claim(
    wanted: Sequence[Wanted],
    *,
    limit: int,
    lease_ms: int | None = None,
    claimed_by: dict[str, Any],
    begin: Begin | None = None,
) -> list[Claimed]:
    """Take up to `limit` tasks over boards and assignees, at most `slots` of each; one winner per row.

    `lease_ms` None takes each board's own. `begin` is for who works what it claims at once: each row is linked to a
    run of its own as `link_run` does, and `begin` stores in the same transaction what a start leaves. Raises
    ValueError for a span out of range. Rows whose allowance of lost workers is spent are settled first and use up
    nothing.
    """
    if lease_ms is not None and not (isinstance(lease_ms, int) and SMALLEST_LEASE_MS <= lease_ms <= LARGEST_LEASE_MS):
        raise ValueError(f"A lease lasts {SMALLEST_LEASE_MS} to {LARGEST_LEASE_MS} ms, in whole ones, not {lease_ms}.")
    if not wanted or limit < 1:
        return []
    boards = _look_at({want.board_id for want in wanted})
    lapsed = [pk for pk, look in boards.items() if look.lapsed]
    if lapsed:
        abandon_spent(boards=lapsed)
    return _claim(wanted, boards, min(limit, MAX_BATCH), _Terms(lease_ms, claimed_by, begin))


@dataclass(frozen=True, slots=True)
class _Terms:
    """On what terms rows are handed out; as `claim` was given them."""

    lease_ms: int | None
    claimed_by: dict[str, Any]
    begin: Begin | None


@dataclass(frozen=True, slots=True)
class _Look:
    """A board, and which of the rarer things a claim has to see to there: what is false costs it no statement."""

    board: Board
    resumes: bool
    lapsed: bool
    capped: bool


def _look_at(boards: Iterable[int]) -> dict[int, _Look]:
    (found,) = plain_rows.answers([look_statement(boards)])
    looks = [_Look(plain_rows.read(Board, row), *row[-3:]) for row in found]
    return {look.board.pk: look for look in looks}


def look_statement(boards: Iterable[int]) -> plain_rows.Statement:
    """What `_look_at` asks; its plan must not depend on how much has ended."""
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


@engine_transaction
def _claim(wanted: Sequence[Wanted], boards: Mapping[int, _Look], limit: int, terms: _Terms) -> list[Claimed]:
    room = _Room(wanted, boards, limit)
    taking(Rank.TASK)
    arms: dict[str, list[int]] = {}
    for arm in _ARMS:
        arms[arm] = _pick(arm, room)
    resumed = arms["resume"]
    fresh = [*arms["lapsed"], *arms["ready"], *arms["ready_by_priority"]]
    if not resumed and not fresh:
        return []
    taken = _take(resumed, fresh, arms["lapsed"], terms)
    for task in taken.tasks.values():
        task.board = boards[task.board_id].board
    ordered = [taken.tasks[key] for key in [*resumed, *fresh]]
    again, runs = set(resumed), aftermath.runs_of(ordered)
    claimed = [Claimed(task, mint(task, taken.attempts[task.pk]), task.pk in again) for task in ordered]
    entries = [_claimed(task, runs, task.pk in again, taken.lost.get(task.pk)) for task in ordered]
    if terms.begin is not None:
        entries += [_linked(link) for link in terms.begin(claimed)]
    record_all(entries)
    return claimed


class _Room:
    """Free slots per board and assignee, after what `max_running` of the roster leaves (over all drains)."""

    def __init__(self, wanted: Sequence[Wanted], boards: Mapping[int, _Look], limit: int) -> None:
        self.limit = limit
        self.boards = {pk: look for pk, look in boards.items() if not look.board.paused}
        self.slots = {
            (want.board_id, name): slots
            for want in wanted
            for name, slots in want.slots.items()
            if slots > 0 and want.board_id in self.boards
        }
        self.room = {want.board_id: limit if want.limit is None else want.limit for want in wanted}
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
    def _serves(arm: str, look: _Look) -> bool:
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


def _pick(arm: str, room: _Room) -> list[int]:
    """Lock the next rows of one arm, skipping what others hold; answers their keys in claim order."""
    wants = room.wants(arm)
    if not wants:
        return []
    (found,) = plain_rows.answers([pick_statement(arm, wants, room.limit)])
    return [key for key, board_id, name in found if room.use(board_id, name)]


def pick_statement(arm: str, wants: Sequence[tuple[int, str, int]], limit: int) -> plain_rows.Statement:
    """What `_pick` asks for (board, assignee, slots): one index range for each of them, whatever stands behind."""
    condition, order = _ARMS[arm]
    return (
        f"""select p.pk, w.board_id, w.assignee
                  from unnest(%s::bigint[], %s::text[], %s::int[]) as w(board_id, assignee, slots)
                  join lateral (
                    select t.pk from boards_task t
                     where t.board_id = w.board_id and t.assignee = w.assignee and {condition}
                     order by {order} limit least(w.slots, %s) for no key update skip locked
                  ) p on true""",
        [[w[0] for w in wants], [w[1] for w in wants], [w[2] for w in wants], limit],
    )


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a claim wrote, by task: the rows, their open attempts, and the numbers of attempts that were lost."""

    tasks: dict[int, Task]
    attempts: dict[int, int]
    lost: dict[int, int]


def _take(resumed: list[int], fresh: list[int], lapsed: list[int], terms: _Terms) -> _Taken:
    """The guarded updates of a claim and its attempts, in one trip; the rows are locked and were seen in their
    from-state.
    """
    taking(Rank.ATTEMPT)
    statements: dict[str, plain_rows.Statement] = {}
    if resumed:
        statements["resumed"] = _grant(sorted(resumed), terms, resume=True)
        statements["going on"] = _STILL_OPEN, [resumed]
    if fresh:
        statements["fresh"] = _grant(sorted(fresh), terms, resume=False)
    if lapsed:
        statements["lost"] = _LOSE, [lapsed]
    if fresh:
        statements["opened"] = _OPEN_ATTEMPTS, [json.dumps(terms.claimed_by), fresh]
    found = dict(zip(statements, plain_rows.answers(list(statements.values())), strict=True))
    rows_found = [*found.get("resumed", []), *found.get("fresh", [])]
    return _Taken(
        {task.pk: task for task in (plain_rows.read(Task, row) for row in rows_found)},
        dict(found.get("going on", [])) | dict(found.get("opened", [])),
        dict(found.get("lost", [])),
    )


_STILL_OPEN = """
    update boards_attempt a set session_id = coalesce(a.session_id, (t.run->>'session_id')::uuid)
      from boards_task t
     where a.task_id = any(%s) and a.ended_at is null and t.pk = a.task_id returning a.task_id, a.id"""
_LOSE = """
    update boards_attempt set ended_at = statement_timestamp(), ending = 'lost',
           error = 'The worker stopped renewing its lease.'
     where task_id = any(%s) and ended_at is null returning task_id, number"""
_OPEN_ATTEMPTS = """
    insert into boards_attempt (task_id, number, assignee, claimed_by, session_id, ending, error, steps, spend)
    select pk, attempts, assignee, %s::jsonb, (run->>'session_id')::uuid, '', '', '{}', '[]'
      from boards_task where pk = any(%s)
    returning task_id, id"""
# A task that was worked before goes on in the session it was worked in last.
_RUN = """jsonb_build_object(
    'session_id', coalesce(case when t.attempts > 0 then (
        select a.session_id from boards_attempt a where a.task_id = t.pk and a.session_id is not null
         order by a.number desc limit 1) end, gen_random_uuid()),
    'request_id', replace(gen_random_uuid()::text, '-', ''),
    'attempt', t.attempts + {new})"""


def _grant(keys: list[int], terms: _Terms, *, resume: bool) -> plain_rows.Statement:
    counted = (
        ""
        if resume
        else """attempts = t.attempts + 1, status_note = '', not_before = null,
                abandonments = t.abandonments + (case when t.status = 'in_progress' then 1 else 0 end),
                started_at = coalesce(t.started_at, statement_timestamp()),"""
    )
    run = "null" if terms.begin is None else _RUN.format(new=0 if resume else 1)
    lease_ms, by = terms.lease_ms, json.dumps(terms.claimed_by)
    return (
        f"""update boards_task t set status = 'in_progress', grant_no = t.grant_no + 1, {counted}
                  lease_duration_ms = coalesce(%s, b.lease_ms),
                  lease_until = statement_timestamp() + make_interval(secs => coalesce(%s, b.lease_ms) / 1000.0),
                  claimed_by = %s, run = {run}, resume_ready_at = null, kept_open_by = '',
                  revision = t.revision + 1, updated_at = statement_timestamp()
                from boards_board b
               where t.pk = any(%s) and b.id = t.board_id and t.status = any(%s)
           returning {plain_rows.columns(Task, "t")}""",
        [lease_ms, lease_ms, by, keys, ["in_progress"] if resume else ["pending", "in_progress"]],
    )


def _claimed(task: Task, runs: Mapping[int, int], resumed: bool, lost: int | None) -> Entry:
    chain = agent(task.assignee or task.board.default_worker or "drain", task.board.space_id)
    return Entry(
        "task.resumed" if resumed else "task.claimed",
        chain,
        board_id=task.board_id,
        task_key=task.pk,
        run_id=runs.get(task.visit_id or 0),
        cause="lost worker" if lost else "",
        from_status=Status.IN_PROGRESS if resumed or lost else Status.PENDING,
        to_status=Status.IN_PROGRESS,
        attempt=task.attempts,
        data={"lost_attempt": lost} if lost else {},
    )


def mint(task: Task, attempt_key: int) -> Ticket:
    """The ticket of the row as a claim or resume returned it."""
    return Ticket(
        board_id=task.board_id,
        partition=task.partition,
        task_key=task.pk,
        attempt_key=attempt_key,
        task_id=task.public_id,
        attempt=task.attempts,
        grant_no=task.grant_no,
        created_at=task.created_at,
        incarnation_id=task.incarnation_id,
    )


def abandon_spent(*, boards: Sequence[int] | None = None, limit: int = 50) -> int:
    """Settle lapsed rows that were handed out too often; answers how many. Costs one index look when there is none."""
    spent = Task.objects.filter(
        status=Status.IN_PROGRESS, lease_until__lte=Now(), abandonments__gte=DEFAULT_MAX_ABANDONMENTS
    )
    if boards is not None:
        spent = spent.filter(board__in=boards)
    found = list(spent.values_list("pk", "board__space_id")[:limit])
    if not found:
        return 0
    outcomes = settle_many(
        [
            Settlement(Verb.ABANDON, service("sweeper", space), key, Options(advisory=True, if_spent=True))
            for key, space in found
        ]
    )
    return sum(outcome.result is Recorded.RECORDED for outcome in outcomes)


def renew_leases(tickets: Sequence[Ticket]) -> dict[int, datetime | None]:
    """Move each lease by its committed span, in one statement; None where the ticket no longer owns its row.

    Publishes no change and takes no part in `revision`. Rows are locked in their order, as everywhere.
    """
    if not tickets:
        return {}
    keys = [t.task_key for t in tickets]
    with connection.cursor() as cursor:
        cursor.execute(
            """with locked as (
                   select pk from boards_task where pk = any(%s) order by pk for no key update
               )
               update boards_task t
                  set lease_until = statement_timestamp() + make_interval(secs => t.lease_duration_ms / 1000.0)
                 from locked, unnest(%s::bigint[], %s::bigint[], %s::int[], %s::uuid[])
                        as k(pk, grant_no, attempt, incarnation)
                where t.pk = locked.pk and t.pk = k.pk and t.grant_no = k.grant_no and t.attempts = k.attempt
                  and t.incarnation_id = k.incarnation and t.status = 'in_progress'
                  and t.lease_until > statement_timestamp()
            returning t.pk, t.lease_until""",
            [
                keys,
                keys,
                [t.grant_no for t in tickets],
                [t.attempt for t in tickets],
                [t.incarnation_id for t in tickets],
            ],
        )
        renewed = dict(cursor.fetchall())
    return {ticket.task_key: renewed.get(ticket.task_key) for ticket in tickets}


def owns(ticket: Ticket) -> bool:
    """Whether the ticket is of the current grant of a row that is still being worked."""
    return (
        Task.objects.filter(
            pk=ticket.task_key,
            grant_no=ticket.grant_no,
            attempts=ticket.attempt,
            incarnation_id=ticket.incarnation_id,
            status=Status.IN_PROGRESS,
        )
        .filter(Q(lease_until__isnull=True) | Q(lease_until__gt=Now()))
        .exists()
    )


def link_run(chain: Chain, ticket: Ticket, session_id: uuid.UUID | None, request_id: str) -> TaskWriteOutcome:
    """Name the run that works this grant, where none is named yet: a hand-over delivered twice starts once."""
    return link_runs([RunLink(chain, ticket, session_id, request_id)])[0]


@engine_transaction
def link_runs(links: Sequence[RunLink]) -> list[TaskWriteOutcome]:
    """`link_run` for many grants in one transaction; the answers stand in the order of the links."""
    taking(Rank.TASK)
    landed = _write_links(links)
    linked = [link for link in links if link.ticket.task_key in landed]
    _note_sessions(linked)
    record_all(_linked(link) for link in linked)
    return [
        TaskWriteOutcome(Recorded.RECORDED, Status.IN_PROGRESS)
        if link.ticket.task_key in landed
        else _refuse_link(link.ticket)
        for link in links
    ]


def _linked(link: RunLink) -> Entry:
    ticket = link.ticket
    return Entry(
        "task.run_linked",
        link.chain,
        board_id=ticket.board_id,
        task_key=ticket.task_key,
        attempt=ticket.attempt,
    )


def _write_links(links: Sequence[RunLink]) -> set[int]:
    """The guarded update, rows locked in their order; answers the keys of the tasks that it landed on."""
    tickets = [link.ticket for link in links]
    keys = [ticket.task_key for ticket in tickets]
    with connection.cursor() as cursor:
        cursor.execute(
            """with locked as (
                   select pk from boards_task where pk = any(%s) order by pk for no key update
               )
               update boards_task t
                  set run = v.run::jsonb, revision = t.revision + 1, updated_at = statement_timestamp()
                 from locked, unnest(%s::bigint[], %s::bigint[], %s::int[], %s::uuid[], %s::text[])
                        as v(pk, grant_no, attempt, incarnation, run)
                where t.pk = locked.pk and t.pk = v.pk and t.grant_no = v.grant_no and t.attempts = v.attempt
                  and t.incarnation_id = v.incarnation and t.status = 'in_progress' and t.run is null
                  and (t.lease_until is null or t.lease_until > statement_timestamp())
            returning t.pk""",
            [
                keys,
                keys,
                [ticket.grant_no for ticket in tickets],
                [ticket.attempt for ticket in tickets],
                [ticket.incarnation_id for ticket in tickets],
                [clean_json_text(_run(link)) for link in links],
            ],
        )
        return {row[0] for row in cursor.fetchall()}


def _refuse_link(ticket: Ticket) -> TaskWriteOutcome:
    task = Task.objects.filter(pk=ticket.task_key).annotate(db_now=Now()).first()
    if task is None:
        return TaskWriteOutcome(Recorded.DECLINED, "", Reason.NOT_MY_TASK)
    if refusal := decisions.lost(ticket, task, task.db_now):
        return refusal
    return TaskWriteOutcome(Recorded.DECLINED, task.status, Reason.DISALLOWED, "This run was started already.")


def _run(link: RunLink) -> dict[str, Any]:
    session = str(link.session_id or "")
    return {"session_id": session, "request_id": link.request_id, "attempt": link.ticket.attempt}


def _note_sessions(links: Sequence[RunLink]) -> None:
    if not links:
        return
    taking(Rank.ATTEMPT)
    with connection.cursor() as cursor:
        cursor.execute(
            """update boards_attempt a set session_id = v.session
                 from unnest(%s::bigint[], %s::uuid[]) as v(pk, session) where a.id = v.pk""",
            [[link.ticket.attempt_key for link in links], [link.session_id for link in links]],
        )


@engine_transaction
def claim_for_person(chain: Chain, task: Task | int) -> Claimed:
    """Start a task that is assigned to the person; their claim carries no lease, and the server keeps the ticket."""
    row, now = rows.lock_one(task)
    if row.board.space_id != chain.space_id:
        raise errors.TaskNotFound
    policy.require(chain, "tasks.claim", row.board.space_id)
    entry = row.board.roster.filter(name=row.assignee, kind=RosterEntry.Kind.PERSON, user=chain.user_id).first()
    if entry is None:
        raise errors.Forbidden("This task is assigned to somebody else.")
    if row.status != Status.PENDING or not decisions.is_claimable(row, now):
        raise errors.IllegalTaskTransition(row.public_id, row.status, Status.IN_PROGRESS, "This task cannot start yet.")
    claimed_by = {"user": chain.user_id}
    changes: dict[str, Any] = {
        "status": Status.IN_PROGRESS,
        "grant_no": row.grant_no + 1,
        "attempts": row.attempts + 1,
    }
    changes |= {"claimed_by": claimed_by, "run": None, "status_note": "", "not_before": None}
    changes |= {"started_at": row.started_at or rows.NOW}
    if not rows.write(row, changes):
        raise errors.IllegalTaskTransition(row.public_id, row.status, Status.IN_PROGRESS)
    taking(Rank.ATTEMPT)
    (opened,) = plain_rows.answers([(_OPEN_ATTEMPTS, [json.dumps(claimed_by), [row.pk]])])
    record_all(
        [
            Entry(
                "task.claimed",
                chain,
                board_id=row.board_id,
                task_key=row.pk,
                run_id=aftermath.run_of(row),
                from_status=Status.PENDING,
                to_status=Status.IN_PROGRESS,
                attempt=row.attempts,
            )
        ]
    )
    return Claimed(row, mint(row, opened[0][1]))


def person_ticket(chain: Chain, task: Task) -> Ticket | None:
    """The ticket that the server keeps for the person who works the task; None for anybody else."""
    if task.status != Status.IN_PROGRESS or (task.claimed_by or {}).get("user") != chain.user_id or not chain.user_id:
        return None
    if task.board.space_id != chain.space_id or not policy.allowed(chain, "tasks.complete"):
        return None
    attempt_key = Attempt.objects.filter(task=task, ended_at__isnull=True).values_list("pk", flat=True).first()
    return mint(task, attempt_key) if attempt_key else None


def wake(board_id: int) -> None:
    """Tell the drains of a board that something may be claimable."""
    live_notices.changed(board_id)

"""Taking tasks: the batch claim, its tickets, the end of rows that lost their worker too often (spec: 02 section 2).

Which rows a claim may take stands in `arms`, what a grant is good for later in `grants`. Hot statements address rows by
key; the fence is a filter, never an index condition. All times are the database's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models.functions import Now

from boards.actors import Chain, agent, service
from boards.event_log import Entry, record_all
from boards.locks import Rank, engine_transaction, taking
from boards.models import Task
from boards.states import Status, Verb
from boards.tasks import aftermath, arms, begun, plain_rows, straight_claims
from boards.tasks.decisions import DEFAULT_MAX_ABANDONMENTS, Options
from boards.tasks.endings import Settlement, settle_many
from boards.tasks.types import Acts, Begin, Claimed, Recorded, Ticket, Wanted, Within

SMALLEST_LEASE_MS = 1_000
LARGEST_LEASE_MS = 6_442_450_941
MAX_BATCH = 500


def claim(
    wanted: Sequence[Wanted],
    *,
    limit: int,
    lease_ms: int | None = None,
    claimed_by: dict[str, Any],
    begin: Begin | None = None,
    first_words: str = "",
    acts: Acts = agent,
    within: Within | None = None,
) -> list[Claimed]:
    """Take up to `limit` tasks over boards and assignees, at most `slots` of each; one winner per row.

    `lease_ms` None takes each board's own. `begin` is for who works what it claims at once: each row is linked to a
    run of its own, and what the start leaves is stored in the same transaction, by what `begin` answers;
    `first_words` is how the transcript of a first attempt begins, where that can be said beforehand. `acts` says who
    acts for an assignee in a space, for the events; `within` runs the taking in a transaction of its own. Raises
    ValueError for a span out of range. Rows whose allowance of lost workers is spent are settled first and use up
    nothing.
    """
    if lease_ms is not None and not (isinstance(lease_ms, int) and SMALLEST_LEASE_MS <= lease_ms <= LARGEST_LEASE_MS):
        raise ValueError(f"A lease lasts {SMALLEST_LEASE_MS} to {LARGEST_LEASE_MS} ms, in whole ones, not {lease_ms}.")
    if not wanted or limit < 1:
        return []
    if begin is not None and first_words:
        straight = straight_claims.claim(wanted, min(limit, MAX_BATCH), lease_ms, claimed_by, first_words, _NOT_TOLD)
        if straight is not None:
            claimed = [Claimed(one.task, mint(one.task, one.attempt_key), bare=one.bare) for one in straight]
            begin(claimed)
            return claimed
    boards = arms.look_at({want.board_id for want in wanted})
    lapsed = [pk for pk, look in boards.items() if look.lapsed]
    if lapsed:
        abandon_spent(boards=lapsed)
    terms = _Terms(lease_ms, claimed_by, begin, acts)
    if within is None:
        return _claim(wanted, boards, min(limit, MAX_BATCH), terms)
    return within(lambda: _claim(wanted, boards, min(limit, MAX_BATCH), terms))


@dataclass(frozen=True, slots=True)
class _Terms:
    """On what terms rows are handed out; as `claim` was given them."""

    lease_ms: int | None
    claimed_by: dict[str, Any]
    begin: Begin | None
    acts: Acts

    @property
    def without(self) -> frozenset[str]:
        """What is left to whoever asks for it: who starts what it claims is told the work, and not how it stands."""
        return frozenset() if self.begin is None else _NOT_TOLD


_NOT_TOLD = frozenset(
    {"goal_hash", "output", "output_is_checkpoint", "error", "write_log", "write_log_truncated", "retry_ledger"}
    | {"filed_by", "created_by_id", "filed_by_task_id", "checker", "stage", "required", "withdrawn", "cancelled_via"}
    | {"max_attempts", "failures", "unmet_deps", "open_holds", "status_note", "kept_open_by", "claimed_by", "priority"}
    | {"due_at", "not_before", "resume_ready_at", "lease_until", "started_at", "completed_at", "updated_at"}
)


@engine_transaction
def _claim(wanted: Sequence[Wanted], boards: Mapping[int, arms.Look], limit: int, terms: _Terms) -> list[Claimed]:
    room = arms.Room(wanted, boards, limit)
    taking(Rank.TASK)
    picked = {arm: arms.pick(arm, room) for arm in arms.ARMS}
    resumed = picked["resume"]
    fresh = [*picked["lapsed"], *picked["ready"], *picked["ready_by_priority"]]
    if not resumed and not fresh:
        return []
    taken = _take(resumed, fresh, picked["lapsed"], terms)
    for task in taken.tasks.values():
        plain_rows.set_board(task, boards[task.board_id].board)
    ordered = [taken.tasks[key] for key in [*resumed, *fresh]]
    again, runs = set(resumed), aftermath.runs_of(ordered)
    claimed = [Claimed(task, mint(task, taken.attempts[task.pk]), task.pk in again) for task in ordered]
    chains = cache(terms.acts)
    entries = [_claimed(task, chains, runs, task.pk in again, taken.lost.get(task.pk)) for task in ordered]
    if terms.begin is None:
        record_all(entries)
    else:
        begun.leave(claimed, terms.begin(claimed), entries)
    return claimed


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
        statements["opened"] = OPEN_ATTEMPTS, [json.dumps(terms.claimed_by), fresh]
    found = dict(zip(statements, plain_rows.answers(list(statements.values())), strict=True))
    rows_found = [*found.get("resumed", []), *found.get("fresh", [])]
    return _Taken(
        {task.pk: task for task in (plain_rows.read(Task, row, terms.without) for row in rows_found)},
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
OPEN_ATTEMPTS = """
    insert into boards_attempt (task_id, number, assignee, claimed_by, session_id, ending, error, steps, spend)
    select pk, attempts, assignee, %s::jsonb, (run->>'session_id')::uuid, '', '', '{}', '[]'
      from boards_task where pk = any(%s)
    returning task_id, id"""
# A task that was worked before goes on in the session it was worked in last; a follow-up in that of its chain, which is
# the root's own before that of any follow-up.
RUN_LINK = """jsonb_build_object(
    'session_id', coalesce(
        case when t.follow_up_of_id is not null then (
            select a.session_id from boards_task o join boards_attempt a on a.task_id = o.pk
             where (o.pk = t.follow_up_of_id or o.follow_up_of_id = t.follow_up_of_id) and a.session_id is not null
             order by o.follow_up_of_id nulls first, a.id desc limit 1)
        when t.attempts > 0 then (
            select a.session_id from boards_attempt a where a.task_id = t.pk and a.session_id is not null
             order by a.id desc limit 1) end, gen_random_uuid()),
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
    run = "null" if terms.begin is None else RUN_LINK.format(new=0 if resume else 1)
    lease_ms, by = terms.lease_ms, json.dumps(terms.claimed_by)
    return (
        f"""update boards_task t set status = 'in_progress', grant_no = t.grant_no + 1, {counted}
                  lease_duration_ms = coalesce(%s, b.lease_ms),
                  lease_until = statement_timestamp() + make_interval(secs => coalesce(%s, b.lease_ms) / 1000.0),
                  claimed_by = %s, run = {run}, resume_ready_at = null, kept_open_by = '',
                  revision = t.revision + 1, updated_at = statement_timestamp()
                from boards_board b
               where t.pk = any(%s) and b.id = t.board_id and t.status = any(%s)
           returning {plain_rows.columns(Task, "t", terms.without)}""",
        [lease_ms, lease_ms, by, keys, ["in_progress"] if resume else ["pending", "in_progress"]],
    )


def _claimed(
    task: Task, chains: Callable[[str, int], Chain], runs: Mapping[int, int], resumed: bool, lost: int | None
) -> Entry:
    chain = chains(task.assignee or task.board.default_worker or "drain", task.board.space_id)
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

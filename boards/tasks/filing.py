"""Filing: checks before and as part of the write; a refused filing writes nothing (spec: 01 section 3).

Order of the refusals: board, task, assignee, then caps. Lock order: idempotency row, advisory lock of the goal,
counter row, dependencies FOR SHARE by key. A batch is all or nothing. What a field may hold is checked in
`filed_fields`; the rows are made and stored in `filed_rows`.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from django.db import connection

from boards import errors, policy
from boards.actors import Chain
from boards.locks import Rank, engine_transaction, joins_another, sorted_keys, taking
from boards.models import Board, IdempotencyKey, Task, Visit
from boards.states import TERMINAL, Status
from boards.tasks import (
    budgets,
    cleaning,
    filed_from,
    filed_rows,
    follow_ups,
    grants,
    idempotency,
    partitions,
    plain_rows,
    straight,
)
from boards.tasks.filed_fields import (
    check_input,
    checked_filing,
    dependency_ended,
    dependency_loop,
    not_on_board,
    not_on_roster,
    refuse_waiting,
)
from boards.tasks.filed_from import Context
from boards.tasks.progress import LostClaim
from boards.tasks.types import Filing, Ticket

MAX_BATCH = 1_000


def file_task(
    chain: Chain,
    board: Board,
    filing: Filing | None = None,
    *,
    visit: Visit | None = None,
    filed_by_task: Task | None = None,
    session_id: uuid.UUID | None = None,
    allow_same: bool = False,
    idempotency_key: str = "",
    claim: Ticket | None = None,
    judged: bool = True,
    **named: Any,
) -> Task:
    """File one task. Raises a Refusal with one of the codes of 01 section 3; nothing is written then.

    `claim`: of the task that files it, which is `filed_by_task`; raises LostClaim where that has moved on, or was
    handed in. In a worker's turn both are its own, `current_claim()`, where the caller names none. `judged` False: an
    input of our own make, which the board's schema does not speak of.
    """
    context = Context(visit, filed_by_task, session_id, allow_same, idempotency_key, claim, judged)
    return _file(chain, board, [filing or filing_of(named)], context)[0]


def file_tasks(
    chain: Chain,
    board: Board,
    filings: Sequence[Filing],
    *,
    visit: Visit | None = None,
    filed_by_task: Task | None = None,
    session_id: uuid.UUID | None = None,
    allow_same: bool = False,
    idempotency_key: str = "",
) -> list[Task]:
    """File up to 1,000 tasks, all or nothing; dependencies may name ids of the same batch.

    In a worker's turn they are filed under its claim, as by `file_task`. Raises as it does; `index` of a refusal says
    which filing it is about.
    """
    return _file(chain, board, filings, Context(visit, filed_by_task, session_id, allow_same, idempotency_key))


def _file(chain: Chain, board: Board, filings: Sequence[Filing], context: Context) -> list[Task]:
    if board.space_id != chain.space_id or not chain.sees_board(board.pk):
        raise errors.BoardNotFound
    policy.require(chain, "tasks.file", board.space_id)
    if not 1 <= len(filings) <= MAX_BATCH:
        raise errors.InvalidInput(f"File 1 to {MAX_BATCH:,} tasks at once.")
    key = cleaning.checked_text(context.idempotency_key, "idempotency_key", cleaning.MAX_KEY)
    context = filed_from.turn_of(chain, context)
    checked = [_checked_at(index, filing, board) for index, filing in enumerate(filings)]
    context = replace(context, idempotency_key=key, partition=partitions.partition_of(chain, board))
    digest = ""
    if key:
        given = [replace(each, checker=filing.checker) for each, filing in zip(checked, filings, strict=True)]
        digest = _digest(board, context, given)
    elif straight_on := _straight_on(chain, board, checked, context):
        return [straight_on]
    return _write(chain, board, checked, context, digest)


def _straight_on(chain: Chain, board: Board, filings: Sequence[Filing], context: Context) -> Task | None:
    """One ordinary filing, in one statement; None where anything is the matter with it.

    Not within another engine transaction: what it has locked there would stand before the long way's own locks.
    """
    if (
        joins_another()
        or board.input_schema is not None
        or len(filings) > 1
        or context.visit
        or context.filed_by_task
        or not straight.is_ordinary(filings[0])
    ):
        return None
    hashes = [cleaning.goal_hash(filings[0].goal)]
    plan = filed_rows.Plan([""], hashes, {}, {}, context.partition, None, None)
    task = filed_rows.fresh(chain, board, filings, plan, context.session_id)[0]
    twins = "" if context.allow_same else _place_of_goal(board, context.partition, hashes[0])
    return task if straight.file(chain, board, task, twins) else None


def filing_of(named: Mapping[str, Any]) -> Filing:
    """The filing that a mapping of names says. Raises CreateTaskDoesNotWait, and InvalidInput for an unknown name."""
    refuse_waiting(named)
    if unknown := sorted(named.keys() - {each.name for each in fields(Filing)}):
        raise errors.InvalidInput(f"{unknown[0]} cannot be filed.", field=unknown[0])
    return Filing(**{"goal": "", **named})


def _checked_at(index: int, filing: Filing, board: Board) -> Filing:
    """Checked; a refusal says which filing of the batch it is about."""
    try:
        return checked_filing(filing, board)
    except errors.Refusal as refusal:
        refusal.facts["index"] = index
        raise


@engine_transaction
def _write(chain: Chain, board: Board, filings: Sequence[Filing], context: Context, digest: str) -> list[Task]:
    stored = idempotency.row_of(chain, "file", context.idempotency_key, digest)
    if stored is not None and stored.result is not None:
        return _stored_result(board, context.partition, stored)
    if context.judged:
        _judge(board, filings)
    filings, roots = follow_ups.resolve(board, context.partition, filings)
    filed_from.check_parent(chain, context)
    hashes = [cleaning.goal_hash(filing.goal) for filing in filings]
    first = _reserve(board, filings, hashes, context, roots)
    _check_enqueued(board, context.partition, filings, first)
    filings = follow_ups.with_ids(filings, roots)
    names = _names(board, context.partition, filings, first)
    ours = dict(zip(names, filings, strict=True))
    dependencies = _lock_dependencies(board, ours, context)
    follow_ups.keep(roots)
    plan = filed_rows.Plan(names, hashes, dependencies, roots, context.partition, context.visit, context.filed_by_task)
    tasks = filed_rows.insert(chain, board, filings, plan, context.session_id)
    if stored is not None:
        IdempotencyKey.objects.filter(pk=stored.pk).update(result=[task.public_id for task in tasks])
    return tasks


def _judge(board: Board, filings: Sequence[Filing]) -> None:
    """By the board's schema, which may have changed since an earlier call under the same idempotency key.

    A follow-up without an input of its own goes on with its root's, which was judged.
    """
    if board.input_schema is None:
        return
    for index, filing in enumerate(filings):
        if filing.input or not filing.follow_up_of:
            check_input(board, filing.input, index=index)


def _digest(board: Board, context: Context, given: Sequence[Filing]) -> str:
    """What tells one body from another: what was given, where and from which task; not what the board adds."""
    place: list[Any] = [board.pk, context.partition] if context.partition else [board.pk]
    place += [{"filed_by_task": context.filed_by_task.pk}] if context.filed_by_task else []
    body = json.dumps([*place, [asdict(filing) for filing in given]], default=str, sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()


def _stored_result(board: Board, partition: str, row: IdempotencyKey) -> list[Task]:
    names: list[str] = row.result or []
    found = {t.public_id: t for t in Task.objects.filter(board=board, partition=partition, public_id__in=names)}
    if not found.keys() >= set(names):
        raise errors.TaskNotFound
    return [found[name] for name in names]


def _reserve(
    board: Board, filings: Sequence[Filing], hashes: Sequence[str], context: Context, roots: follow_ups.Roots
) -> int:
    """Check roster and twins, and count the filings; answers the lifetime number before them.

    All of it is one trip to the database, and each statement has its own snapshot: what a filing has stored for which
    the lock waited is seen by the next one. A caller's transaction may go on after a refusal, so what was counted goes
    back.
    """
    goals = _goals_that_may_be_open(filings, hashes, context)
    taking(Rank.BOARD_ADVISORY)
    statements = [(_ROSTER, [board.pk]), partitions.keeps_kind(board)]
    if goals:
        places = [_place_of_goal(board, context.partition, digest) for digest in goals]
        statements.append((_LOCK_GOALS, [straight.GOALS, places]))
        statements.append((_TWINS, [board.pk, context.partition, goals]))
    statements += follow_ups.locks_of_numbers(roots)
    statements.append(budgets.take_ids(board, context.partition, len(filings)))
    names, kept, *between, counted = plain_rows.answers(statements)
    try:
        _check_assignees(board, filings, [name for (name,) in names])
        partitions.require_kept(kept)
        if goals:
            _check_not_open(filings, hashes, {(digest, assignee): key for digest, assignee, key in between[1]})
            _check_not_twice(filings, hashes)
    except errors.Refusal:
        if counted:
            budgets.give_back_ids(board, context.partition, len(filings))
        raise
    if not counted:
        raise errors.TotalTaskCapExceeded
    first: int = counted[0][0]
    return first


_ROSTER = "select name from boards_rosterentry where board_id = %s order by position, name"
_LOCK_GOALS = """
    select pg_advisory_xact_lock(%s, goal)
      from (select hashtext(g) as goal from unnest(%s::text[]) as g order by 1) as in_order"""
_TWINS = f"""
    select goal_hash, assignee, pk from boards_task
     where board_id = %s and partition = %s and goal_hash = any(%s) and visit_id is null and follow_up_of_id is null
       and not (status in ({", ".join(f"'{status}'" for status in sorted(TERMINAL))}))"""


def _place_of_goal(board: Board, partition: str, digest: str) -> str:
    """What the advisory lock of a goal is taken on."""
    return f"{board.pk}:{partition}:{digest}"


def _goals_that_may_be_open(filings: Sequence[Filing], hashes: Sequence[str], context: Context) -> list[str]:
    """The goals of which one task may be open for an assignee: none where the filer saw it and files anyway, nor in a
    flow's step. A follow-up is meant for the session of its chain, so it is nobody's twin.
    """
    if context.allow_same or context.visit is not None:
        return []
    return sorted({digest for filing, digest in zip(filings, hashes, strict=True) if not filing.follow_up_of})


def _check_assignees(board: Board, filings: Sequence[Filing], names: Sequence[str]) -> None:
    for index, filing in enumerate(filings):
        if filing.checker != "none" and filing.checker == filing.assignee:
            sentence = "checker must be somebody other than the assignee."
            raise errors.InvalidInput(sentence, field="checker", index=index)
        for name, field in ((filing.assignee, "assignee"), (filing.checker, "checker")):
            if name and name not in names and not (field == "checker" and name in {"none", "person"}):
                raise not_on_roster(name, board, names, field=field, index=index)


def _check_not_open(filings: Sequence[Filing], hashes: Sequence[str], twins: Mapping[tuple[str, str], int]) -> None:
    for index, (filing, digest) in enumerate(zip(filings, hashes, strict=True)):
        if not filing.follow_up_of and (twin := twins.get((digest, filing.assignee))):
            task = Task.objects.get(pk=twin)
            sentence = f"“{task.label}” is open already with the same goal. Use that one, or name another goal."
            raise errors.AlreadyOpen(sentence, task_id=task.public_id, index=index)


def _check_not_twice(filings: Sequence[Filing], hashes: Sequence[str]) -> None:
    """The same goal for the same assignee stands once in a batch; the other is named by its title."""
    first: dict[tuple[str, str], int] = {}
    for index, (filing, digest) in enumerate(zip(filings, hashes, strict=True)):
        if filing.follow_up_of:
            continue
        other = first.setdefault((digest, filing.assignee), index)
        if other != index:
            label = Task(title=filings[other].title, goal=filings[other].goal).label
            sentence = f"“{label}” stands in this batch already with the same goal, as task {other + 1}."
            raise errors.AlreadyOpen(sentence, index=index)


def _check_enqueued(board: Board, partition: str, filings: Sequence[Filing], filed_before: int) -> None:
    """Counts what is pending only where more was ever filed than may be."""
    if board.max_enqueued_tasks is None or filed_before + len(filings) <= board.max_enqueued_tasks:
        return
    new = sum(not filing.held for filing in filings)
    room = board.max_enqueued_tasks - new
    pending = Task.objects.filter(board=board, partition=partition, status=Status.PENDING).values("pk")
    if new and (room < 0 or pending[: room + 1].count() > room):
        raise errors.EnqueuedTaskCapExceeded


def _names(board: Board, partition: str, filings: Sequence[Filing], first: int) -> list[str]:
    """The id of each filing: the one chosen, else `t` and the board's running number, ascending within a batch.

    Where ids were chosen or are named as dependencies, those that are taken are looked up here; otherwise the insert
    finds them.
    """
    generated = [f"t{first + n}" for n in range(1, len(filings) + 1)]
    if not any(filing.id or filing.deps for filing in filings):
        return generated
    chosen = [filing.id for filing in filings if filing.id]
    if len(set(chosen)) != len(chosen):
        raise errors.TaskIdTaken("Two tasks of the batch have the same id.")
    same = Task.objects.filter(board=board, partition=partition, public_id__in=[*chosen, *generated])
    taken = set(same.values_list("public_id", flat=True))
    if twice := sorted(taken.intersection(chosen)):
        raise errors.TaskIdTaken(f"A task with the id {twice[0]} exists on this board. Choose another id.", id=twice[0])
    taken |= set(chosen)
    return [
        filing.id or (filed_rows.another(name) if name in taken else name)
        for filing, name in zip(filings, generated, strict=True)
    ]


def _lock_dependencies(board: Board, ours: Mapping[str, Filing], context: Context) -> dict[str, Task]:
    """Dependencies on the board and the task that files, locked FOR SHARE in key order, their status read after it.

    The parent among them: a cancel with all that it filed either finds the new tasks or refuses them.
    """
    parent = context.filed_by_task
    if parent is None and not any(filing.deps for filing in ours.values()):
        return {}
    _refuse_loops(ours)
    names = sorted({dep for filing in ours.values() for dep in filing.deps if dep not in ours})
    if not names and parent is None:
        return {}
    taking(Rank.TASK)
    found = dict(
        Task.objects.filter(board=board, partition=context.partition, public_id__in=names).values_list(
            "public_id", "pk"
        )
    )
    if missing := [name for name in names if name not in found]:
        raise not_on_board(missing[0])
    with connection.cursor() as cursor:
        cursor.execute(
            "select 1 from boards_task where pk = any(%s) order by pk for share",
            [sorted_keys([*found.values(), *([parent.pk] if parent else [])])],
        )
    if parent is not None and Task.objects.filter(pk=parent.pk, status=Status.CANCELLED).exists():
        raise errors.ParentCancelled
    if context.claim is not None and not grants.owns(context.claim):  # the row is locked: so it stays
        raise LostClaim
    locked = {task.public_id: task for task in Task.objects.filter(pk__in=found.values())}
    if gone := sorted(found.keys() - locked.keys()):  # retention removed it before we had the lock
        raise not_on_board(gone[0])
    for name, task in locked.items():
        if task.status in {Status.ERRORED, Status.CANCELLED}:
            raise dependency_ended(name, task.status)
    return locked


def _refuse_loops(filings: Mapping[str, Filing]) -> None:
    """Loops inside the batch; the filing of one task cannot close one, since nothing depends on it yet."""
    done: set[str] = set()
    for first in filings:
        path: dict[str, Iterator[str]] = {} if first in done else {first: iter(filings[first].deps)}
        while path:  # no recursion: a batch may be one chain, longer than Python goes
            name = next(reversed(path))
            dep = next(path[name], None)
            if dep is None:
                path.pop(name)
                done.add(name)
            elif dep in path:
                loop = [*path, dep]
                raise dependency_loop(loop[loop.index(dep) :])
            elif dep in filings and dep not in done:
                path[dep] = iter(filings[dep].deps)

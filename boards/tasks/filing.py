"""Filing: checks before and as part of the write; a refused filing writes nothing (spec: 01 section 3).

Order of the refusals: board, task, assignee, then caps. Lock order: idempotency row, advisory lock of the goal,
counter row, dependencies FOR SHARE by key. A batch is all or nothing.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from django.db import IntegrityError, connection, transaction

from boards import errors, policy
from boards.actors import Chain
from boards.event_log import Entry, record_all
from boards.locks import Rank, engine_transaction, sorted_keys, taking
from boards.models import Board, Hold, IdempotencyKey, Session, Task, TaskDep, Visit
from boards.states import LIVE, HoldKind, Status
from boards.tasks import budgets, cleaning, follow_ups, partitions
from boards.tasks.current import current_claim
from boards.tasks.types import Filing, HoldFiling

MAX_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Context:
    """Where a filing comes from: the visit of a flow run, the task whose turn files it, the session it is filed in."""

    visit: Visit | None = None
    filed_by_task: Task | None = None
    session_id: uuid.UUID | None = None
    allow_same: bool = False
    idempotency_key: str = ""
    partition: str = ""  # computed from the chain; no caller gives it


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
    **named: Any,
) -> Task:
    """File one task. Raises a Refusal with one of the codes of 01 section 3; nothing is written then."""
    context = Context(visit, filed_by_task, session_id, allow_same, idempotency_key)
    return _file(chain, board, [filing or _filing(named)], context)[0]


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
    """File up to 1,000 tasks, all or nothing; dependencies may name ids of the same batch."""
    return _file(chain, board, filings, Context(visit, filed_by_task, session_id, allow_same, idempotency_key))


def _file(chain: Chain, board: Board, filings: Sequence[Filing], context: Context) -> list[Task]:
    if board.space_id != chain.space_id:
        raise errors.BoardNotFound
    policy.require(chain, "tasks.file", board.space_id)
    if not 1 <= len(filings) <= MAX_BATCH:
        raise errors.InvalidInput(f"File 1 to {MAX_BATCH:,} tasks at once.")
    key = cleaning.checked_text(context.idempotency_key, "idempotency_key", cleaning.MAX_KEY)
    context = _turn_of(chain, context)
    checked = [_checked(filing, board) for filing in filings]
    given = [replace(each, checker=filing.checker) for each, filing in zip(checked, filings, strict=True)]
    context = replace(context, idempotency_key=key, partition=partitions.partition_of(chain, board))
    return _write(chain, board, checked, context, _digest(board, context.partition, given))


def _filing(named: Mapping[str, Any]) -> Filing:
    if unknown := sorted(named.keys() - {each.name for each in fields(Filing)}):
        raise errors.InvalidInput(f"{unknown[0]} cannot be filed.", field=unknown[0])
    return Filing(**{"goal": "", **named})


def _checked(filing: Filing, board: Board) -> Filing:
    c = cleaning
    checker = filing.checker or board.checker
    return replace(
        filing,
        goal=c.checked_goal(filing.goal),
        id=c.checked_id(filing.id) if filing.id else "",
        follow_up_of=c.checked_id(filing.follow_up_of) if filing.follow_up_of else "",
        title=c.checked_title(filing.title),
        context=c.checked_text(filing.context, "context"),
        input=c.checked_object(filing.input, "input"),
        labels=c.checked_labels(filing.labels),
        metadata=c.checked_metadata(filing.metadata),
        priority=c.checked_int(filing.priority, "priority", -1_000_000, 1_000_000),
        due_at=c.checked_moment(filing.due_at, "due_at"),
        deps=c.checked_ids(filing.deps, "deps"),
        assignee=c.checked_text(filing.assignee, "assignee", 100),
        max_attempts=None
        if filing.max_attempts is None
        else c.checked_int(filing.max_attempts, "max_attempts", 1, 1_000_000),
        checker=c.checked_text(checker, "checker", 100),
        holds=[_checked_hold(hold) for hold in filing.holds],
    )


def _checked_hold(hold: HoldFiling) -> HoldFiling:
    if hold.kind not in {HoldKind.QUESTION, HoldKind.CONFIRM}:
        raise errors.InvalidInput("holds of a filing are questions or confirms.", field="holds")
    options = cleaning.checked_options(hold.kind, hold.options, "holds")
    return replace(
        hold,
        prompt=cleaning.required_text(hold.prompt, "holds", 10_000),
        title=cleaning.checked_title(hold.title),
        context=cleaning.checked_text(hold.context, "holds"),
        options=options,
        due_at=cleaning.checked_moment(hold.due_at, "holds"),
        default=cleaning.checked_default(hold.kind, options, hold.default, "holds"),
    )


def _check_assignees(board: Board, filings: Sequence[Filing]) -> None:
    names = list(board.roster.values_list("name", flat=True))
    for filing in filings:
        if filing.checker != "none" and filing.checker == filing.assignee:
            raise errors.InvalidInput("checker must be somebody other than the assignee.", field="checker")
        for name, field in ((filing.assignee, "assignee"), (filing.checker, "checker")):
            if name and name not in names and not (field == "checker" and name in {"none", "person"}):
                known = ", ".join(names) or "nobody yet"
                raise errors.UnknownAssignee(
                    f"“{name}” is not on the roster of {board.name}. There is {known}.", field=field
                )


@engine_transaction
def _write(chain: Chain, board: Board, filings: Sequence[Filing], context: Context, digest: str) -> list[Task]:
    stored = _idempotency_row(chain, context, digest)
    if stored is not None and stored.result is not None:
        return _stored_result(board, context.partition, stored)
    filings, roots = follow_ups.resolve(board, context.partition, filings)
    _check_assignees(board, filings)
    _check_parent(chain, context)
    partitions.lock_kind(board)
    _check_not_open(board, filings, context)
    follow_ups.lock_numbers(roots)
    first = budgets.take_ids(board, context.partition, len(filings))
    if first is None:
        raise errors.TotalTaskCapExceeded
    _check_enqueued(board, context.partition, filings)
    filings = _with_ids(board, context.partition, follow_ups.with_ids(filings, roots), first)
    dependencies = _lock_dependencies(board, context.partition, filings, context.filed_by_task)
    tasks = _insert(chain, board, filings, context, dependencies, roots)
    if stored is not None:
        IdempotencyKey.objects.filter(pk=stored.pk).update(result=[task.public_id for task in tasks])
    return tasks


def _digest(board: Board, partition: str, given: Sequence[Filing]) -> str:
    """What tells one body from another: what was given, and where, without what the board adds to it."""
    place = [board.pk, partition] if partition else [board.pk]
    body = json.dumps([*place, [asdict(filing) for filing in given]], default=str, sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()


def _caller(chain: Chain) -> str:
    """Whose key it is: an agent's name says nothing across spaces, nor whom it acts for."""
    name = "/".join([f"space:{chain.space_id}", *(f"{hop.kind}:{hop.id}" for hop in chain.hops)])
    return name if len(name) <= 200 else hashlib.sha256(name.encode()).hexdigest()


def _idempotency_row(chain: Chain, context: Context, digest: str) -> IdempotencyKey | None:
    """The row of this key, inserted first so that a twin waits; refused where it was used for another body."""
    if not context.idempotency_key:
        return None
    taking(Rank.IDEMPOTENCY)
    row, made = IdempotencyKey.objects.get_or_create(
        caller=_caller(chain), verb="file", key=context.idempotency_key, defaults={"body_hash": digest}
    )
    if not made and row.body_hash != digest:
        raise errors.KeyReused
    return row


def _stored_result(board: Board, partition: str, row: IdempotencyKey) -> list[Task]:
    names: list[str] = row.result or []
    found = {t.public_id: t for t in Task.objects.filter(board=board, partition=partition, public_id__in=names)}
    if not found.keys() >= set(names):
        raise errors.TaskNotFound
    return [found[name] for name in names]


def _check_parent(chain: Chain, context: Context) -> None:
    """Early, so that it costs no lock; `_lock_dependencies` looks again at the locked row."""
    if context.filed_by_task is None:
        return
    parent = Task.objects.filter(pk=context.filed_by_task.pk, board__space=chain.space_id).first()
    if parent is None:
        raise errors.TaskNotFound
    if parent.status == Status.CANCELLED:
        raise errors.ParentCancelled


def _turn_of(chain: Chain, context: Context) -> Context:
    """A filing from a turn that works a task says which task, unless a flow's step or the caller has said so."""
    claim = current_claim()
    if claim is None or context.filed_by_task is not None or context.visit is not None:
        return context
    parent = Task.objects.filter(pk=claim.task_key, board__space=chain.space_id).first()
    return replace(context, filed_by_task=parent) if parent else context


def _check_not_open(board: Board, filings: Sequence[Filing], context: Context) -> None:
    """One open task a goal and assignee, unless the filer saw it and files anyway (or it is a flow's step).

    A follow-up is meant for the session of its chain, so it is nobody's twin.
    """
    fresh = [filing for filing in filings if not filing.follow_up_of]
    if context.allow_same or context.visit is not None or not fresh:
        return
    hashes = sorted({cleaning.goal_hash(filing.goal) for filing in fresh})
    taking(Rank.BOARD_ADVISORY)
    with connection.cursor() as cursor:
        for digest in hashes:
            place = f"{board.pk}:{context.partition}:{digest}"
            cursor.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", [0x0B0B, place])
    open_twins = {  # a flow's step is a target of its own
        (task.goal_hash, task.assignee): task
        for task in Task.objects.filter(
            board=board,
            partition=context.partition,
            goal_hash__in=hashes,
            status__in=sorted(LIVE),
            visit=None,
            follow_up_of=None,
        )
    }
    for filing in fresh:
        twin = open_twins.get((cleaning.goal_hash(filing.goal), filing.assignee))
        if twin is not None:
            raise errors.AlreadyOpen(f"“{twin.label}” is open already with the same goal.", task_id=twin.public_id)


def _check_enqueued(board: Board, partition: str, filings: Sequence[Filing]) -> None:
    if board.max_enqueued_tasks is None:
        return
    new = sum(not filing.held for filing in filings)
    room = board.max_enqueued_tasks - new
    pending = Task.objects.filter(board=board, partition=partition, status=Status.PENDING).values("pk")
    if new and (room < 0 or pending[: room + 1].count() > room):
        raise errors.EnqueuedTaskCapExceeded


def _with_ids(board: Board, partition: str, filings: Sequence[Filing], first: int) -> list[Filing]:
    """Each filing with its id: the one chosen, else `t` and the board's running number, ascending within a batch."""
    chosen = [filing.id for filing in filings if filing.id]
    if len(set(chosen)) != len(chosen):
        raise errors.TaskIdTaken("Two tasks of the batch have the same id.")
    generated = {f"t{first + n}" for n in range(1, len(filings) + 1)}
    taken = set(
        Task.objects.filter(board=board, partition=partition, public_id__in=[*chosen, *generated]).values_list(
            "public_id", flat=True
        )
    )
    if twice := sorted(taken.intersection(chosen)):
        raise errors.TaskIdTaken(f"A task with the id {twice[0]} exists on this board. Choose another id.", id=twice[0])
    taken |= set(chosen)
    numbered = []
    for n, filing in enumerate(filings, first + 1):
        fresh = f"t{n}" if f"t{n}" not in taken else f"t{n}-{uuid.uuid4().hex[:6]}"
        numbered.append(filing if filing.id else replace(filing, id=fresh))
    return numbered


def _lock_dependencies(board: Board, partition: str, filings: Sequence[Filing], parent: Task | None) -> dict[str, Task]:
    """Dependencies on the board and the task that files, locked FOR SHARE in key order, their status read after it.

    The parent among them: a cancel with all that it filed either finds the new tasks or refuses them.
    """
    ours = {filing.id: filing for filing in filings}
    _refuse_loops(ours)
    names = sorted({dep for filing in filings for dep in filing.deps if dep not in ours})
    if not names and parent is None:
        return {}
    taking(Rank.TASK)
    found = dict(
        Task.objects.filter(board=board, partition=partition, public_id__in=names).values_list("public_id", "pk")
    )
    if missing := [name for name in names if name not in found]:
        raise errors.DependencyNotOnBoard(f"The dependency {missing[0]} is not on this board.", id=missing[0])
    with connection.cursor() as cursor:
        cursor.execute(
            "select 1 from boards_task where pk = any(%s) order by pk for share",
            [sorted_keys([*found.values(), *([parent.pk] if parent else [])])],
        )
    if parent is not None and Task.objects.filter(pk=parent.pk, status=Status.CANCELLED).exists():
        raise errors.ParentCancelled
    locked = {task.public_id: task for task in Task.objects.filter(pk__in=found.values())}
    for name, task in locked.items():
        if task.status in {Status.ERRORED, Status.CANCELLED}:
            raise errors.DependencyEnded(
                f"The dependency {name} is {Status(task.status).label} and this could never start. "
                "Retry it first, or leave it out.",
                id=name,
            )
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
                raise errors.DependencyLoop(f"These dependencies form a loop: {' → '.join(loop[loop.index(dep) :])}.")
            elif dep in filings and dep not in done:
                path[dep] = iter(filings[dep].deps)


def _insert(
    chain: Chain,
    board: Board,
    filings: Sequence[Filing],
    context: Context,
    dependencies: Mapping[str, Task],
    roots: follow_ups.Roots,
) -> list[Task]:
    session_id = context.session_id or chain.session_id or _service_session(chain).pk
    tasks = [_row(chain, board, filing, context, dependencies, session_id) for filing in filings]
    for task, filing in zip(tasks, filings, strict=True):
        task.follow_up_of = roots.get(filing.follow_up_of)
    try:
        with transaction.atomic():
            Task.objects.bulk_create(tasks)
    except IntegrityError as error:
        if "task_id_once_per_partition" not in str(error):
            raise
        raise errors.TaskIdTaken from None
    by_id = {**dependencies, **{task.public_id: task for task in tasks}}
    TaskDep.objects.bulk_create(
        TaskDep(dependent=task, dependency=by_id[dep])
        for task, filing in zip(tasks, filings, strict=True)
        for dep in filing.deps
    )
    holds = [
        _hold_row(chain, task, hold, n, session_id)
        for task, filing in zip(tasks, filings, strict=True)
        for n, hold in enumerate(filing.holds)
    ]
    Hold.objects.bulk_create(holds)
    run_id = context.visit.run_id if context.visit else None
    record_all(_filed(chain, task, run_id) for task in tasks)
    record_all(_hold_opened(chain, hold, run_id) for hold in holds)
    return tasks


def _row(
    chain: Chain,
    board: Board,
    filing: Filing,
    context: Context,
    dependencies: Mapping[str, Task],
    session_id: uuid.UUID,
) -> Task:
    met = sum(dep in dependencies and dependencies[dep].status == Status.COMPLETED for dep in filing.deps)
    return Task(
        board=board,
        partition=context.partition,
        public_id=filing.id,
        goal=filing.goal,
        goal_hash=cleaning.goal_hash(filing.goal),
        title=filing.title,
        context=filing.context,
        input=filing.input,
        labels=list(filing.labels),
        metadata=filing.metadata,
        priority=filing.priority,
        due_at=filing.due_at,
        assignee=filing.assignee,
        checker=filing.checker,
        max_attempts=filing.max_attempts,
        status=Status.HELD if filing.held else Status.PENDING,
        unmet_deps=len(filing.deps) - met,
        open_holds=len(filing.holds),
        visit=context.visit,
        filed_by_task=context.filed_by_task,
        filer_id=session_id,
        created_by_id=chain.user_id,
        filed_by=chain.name,
        stage=filing.stage if context.visit else "",
        required=filing.required if context.visit else None,
    )


def _hold_row(chain: Chain, task: Task, hold: HoldFiling, position: int, session_id: uuid.UUID) -> Hold:
    return Hold(
        board_id=task.board_id,
        task=task,
        attempt=0,
        position=position,
        source=Hold.Source.FILING,
        kind=hold.kind,
        dedup_key=f"filing:{position}",
        prompt=hold.prompt,
        title=hold.title,
        context=hold.context,
        options=list(hold.options),
        due_at=hold.due_at,
        default=hold.default,
        asker=chain.name,
        asker_session_id=session_id,
    )


def _service_session(chain: Chain) -> Session:
    """The session that one of our own services files from in a space."""
    named = {"space_id": chain.space_id, "kind": Session.Kind.SERVICE, "label": chain.acting.name, "user": None}
    # The oldest: two first filings at the same moment may have made one each, and no constraint says which counts.
    return Session.objects.filter(**named).order_by("created_at", "pk").first() or Session.objects.create(**named)


def _filed(chain: Chain, task: Task, run_id: int | None) -> Entry:
    data = {"follow_up_of": task.follow_up_of.public_id} if task.follow_up_of else {}
    return Entry(
        "task.filed", chain, board_id=task.board_id, task_key=task.pk, run_id=run_id, to_status=task.status, data=data
    )


def _hold_opened(chain: Chain, hold: Hold, run_id: int | None) -> Entry:
    data = {"hold": hold.pk, "kind": hold.kind, "prompt": hold.prompt[:500]}
    return Entry("hold.opened", chain, board_id=hold.board_id, task_key=hold.task_id, run_id=run_id, data=data)

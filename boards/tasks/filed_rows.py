"""The rows of a filing: tasks with their events in one statement, edges and questions (spec: 01 section 3).

It decides nothing: `filing` has checked, counted and locked.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from boards import errors
from boards.actors import Chain
from boards.event_log import Entry, record_all
from boards.models import Board, Hold, Session, Task, TaskDep, Visit
from boards.states import Status
from boards.tasks import plain_rows
from boards.tasks.follow_ups import Roots
from boards.tasks.types import Filing, HoldFiling


@dataclass(frozen=True, slots=True)
class Plan:
    """What the checks found, in the order of the filings: ids, hashes of goals; dependencies and roots by id; and where
    the filing comes from.
    """

    names: Sequence[str]
    hashes: Sequence[str]
    dependencies: Mapping[str, Task]
    roots: Roots
    partition: str
    visit: Visit | None
    parent: Task | None


def insert(
    chain: Chain, board: Board, filings: Sequence[Filing], plan: Plan, session_id: uuid.UUID | None
) -> list[Task]:
    """Store the tasks in their order. Raises TaskIdTaken where somebody chose an id meanwhile."""
    run_id = plan.visit.run_id if plan.visit else None
    tasks = _store(chain, filings, fresh(chain, board, filings, plan, session_id), run_id)
    if plan.dependencies or any(filing.deps for filing in filings):
        _insert_edges(filings, tasks, plan.dependencies)
    holds = [
        _hold_row(chain, task, hold, n)
        for task, filing in zip(tasks, filings, strict=True)
        for n, hold in enumerate(filing.holds)
    ]
    if holds:
        Hold.objects.bulk_create(holds)
        record_all(_hold_opened(chain, hold, run_id) for hold in holds)
    return tasks


def _store(chain: Chain, filings: Sequence[Filing], tasks: list[Task], run_id: int | None) -> list[Task]:
    """Insert rows and events. A generated id that somebody chose before is made another; a chosen one is refused."""
    stored = plain_rows.insert(tasks, chain, run_id)
    if len(stored) < len(tasks):
        free = {task.public_id for task in stored}
        left = [(filing, task) for filing, task in zip(filings, tasks, strict=True) if task.public_id not in free]
        if any(filing.id for filing, _ in left) or any(filing.deps for filing in filings):
            Task.objects.filter(pk__in=[task.pk for task in stored]).delete()  # a caller's transaction may go on
            raise errors.TaskIdTaken
        for _, task in left:
            task.public_id = another(task.public_id)
        plain_rows.insert([task for _, task in left], chain, run_id)
    return tasks


def _insert_edges(filings: Sequence[Filing], tasks: Sequence[Task], dependencies: Mapping[str, Task]) -> None:
    by_id = {**dependencies, **{task.public_id: task for task in tasks}}
    TaskDep.objects.bulk_create(
        TaskDep(dependent=task, dependency=by_id[dep])
        for task, filing in zip(tasks, filings, strict=True)
        for dep in filing.deps
    )


def another(name: str) -> str:
    """An id beside one that is taken."""
    return f"{name}-{uuid.uuid4().hex[:6]}"


def fresh(
    chain: Chain, board: Board, filings: Sequence[Filing], plan: Plan, session_id: uuid.UUID | None
) -> list[Task]:
    """The rows of the filings as they are stored, in their order; nothing is written."""
    parent, visit = plan.parent, plan.visit
    of_all = {
        "board_id": board.pk,
        "partition": plan.partition,
        "visit_id": visit.pk if visit else None,
        "filed_by_task_id": parent.pk if parent else None,
        "filer_id": session_id or chain.session_id or _service_session(chain).pk,
        "created_by_id": chain.user_id,
        "filed_by": chain.name,
    }
    tasks = []
    met = {name for name, task in plan.dependencies.items() if task.status == Status.COMPLETED}
    for filing, name, digest in zip(filings, plan.names, plan.hashes, strict=True):
        root = plan.roots.get(filing.follow_up_of) if filing.follow_up_of else None
        task = plain_rows.fresh(
            board,
            of_all,
            public_id=name,
            incarnation_id=uuid.uuid4(),
            goal=filing.goal,
            goal_hash=digest,
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
            unmet_deps=sum(dep not in met for dep in filing.deps) if filing.deps else 0,
            open_holds=len(filing.holds),
            follow_up_of_id=root.pk if root else None,
            stage=filing.stage if visit else "",
            required=filing.required if visit else None,
        )
        if visit or parent or root:
            task.visit, task.filed_by_task, task.follow_up_of = visit, parent, root
        tasks.append(task)
    return tasks


def _hold_row(chain: Chain, task: Task, hold: HoldFiling, position: int) -> Hold:
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
        asker_session_id=task.filer_id,
    )


def _service_session(chain: Chain) -> Session:
    """The session that one of our own services files from in a space."""
    named = {"space_id": chain.space_id, "kind": Session.Kind.SERVICE, "label": chain.acting.name, "user": None}
    # The oldest: two first filings at the same moment may have made one each, and no constraint says which counts.
    return Session.objects.filter(**named).order_by("created_at", "pk").first() or Session.objects.create(**named)


def _hold_opened(chain: Chain, hold: Hold, run_id: int | None) -> Entry:
    data = {"hold": hold.pk, "kind": hold.kind, "prompt": hold.prompt[:500]}
    return Entry("hold.opened", chain, board_id=hold.board_id, task_key=hold.task_id, run_id=run_id, data=data)

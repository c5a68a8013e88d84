"""Files a withdrawn task again, as a new one, and puts it in its place (spec: 01 "Cascade", 05 section 4.4).

A withdrawn task is never reopened. What it was asked for is copied; what happened to it is not.
"""

from __future__ import annotations

from boards import errors, policy
from boards.actors import Chain
from boards.event_log import Entry, record_all
from boards.locks import engine_transaction, lock_board
from boards.models import Task, TaskDep
from boards.states import Status
from boards.tasks import aftermath, partitions, rows
from boards.tasks.cleaning import RESERVED_PREFIXES
from boards.tasks.filing import file_task
from boards.tasks.types import Filing, HoldFiling

_ENDED_OTHERWISE = (Status.ERRORED, Status.CANCELLED)
_WAITING = (Status.PENDING, Status.HELD)


def file_again(chain: Chain, task: Task | int, *, in_its_place: bool = False) -> Task:
    """File what a withdrawn task was to do as a new task; a repeat answers the one that was filed first.

    `in_its_place`: what waits for the old one waits for the new one instead. Raises IllegalTaskTransition (`bad_state`)
    where the task was not withdrawn, and whatever a filing raises.
    """
    old = _withdrawn(chain, task)
    made = file_task(chain, old.board, _copy(old), allow_same=True, idempotency_key=f"file_again:{old.pk}")
    if in_its_place:
        _put_in_its_place(chain, old, made.pk)
    return made


def _withdrawn(chain: Chain, task: Task | int) -> Task:
    key = task.pk if isinstance(task, Task) else task
    rows_ = Task.objects.select_related("board", "follow_up_of")
    row = rows_.filter(pk=key, board__space=chain.space_id).first()
    if row is None:
        raise errors.TaskNotFound
    partitions.require_own(chain, row)
    policy.require(chain, "tasks.file", row.board.space_id)
    if not row.withdrawn:
        sentence = "Only a task whose due time passed is filed again as a new one."
        raise errors.IllegalTaskTransition(row.public_id, row.status, Status.PENDING, sentence)
    return row


def _copy(old: Task) -> Filing:
    """What its filer gave, without what can no longer be: dependencies that ended, and a due date of long ago."""
    deps = TaskDep.objects.filter(dependent=old.pk).exclude(dependency__status__in=_ENDED_OTHERWISE)
    root = old.follow_up_of
    return Filing(
        goal=old.goal,
        title=old.title,
        context=old.context,
        input=old.input,
        labels=list(old.labels),
        metadata={name: value for name, value in old.metadata.items() if not name.startswith(RESERVED_PREFIXES)},
        priority=old.priority,
        deps=list(deps.order_by("pk").values_list("dependency__public_id", flat=True)),
        assignee="" if root else old.assignee,
        max_attempts=old.max_attempts,
        checker=old.checker,
        follow_up_of=root.public_id if root else "",
        holds=[
            HoldFiling(hold.kind, hold.prompt, hold.title, hold.context, hold.options, default=hold.default)
            for hold in aftermath.unasked(old).order_by("position", "pk")
        ],
    )


@engine_transaction
def _put_in_its_place(chain: Chain, old: Task, new_key: int) -> None:
    """Let what waits for the old task wait for the new one; what was cancelled or has run is left as it is."""
    lock_board(old.board_id)
    edges = TaskDep.objects.filter(dependency=old.pk, dependent__status__in=_WAITING)
    twice = TaskDep.objects.filter(dependency=new_key).values("dependent")
    keys = list(edges.exclude(dependent__in=twice).exclude(dependent=new_key).values_list("dependent", flat=True))
    locked = rows.lock([new_key, *keys])
    new = locked[new_key]
    waiting = [locked[key] for key in keys if key in locked and locked[key].status in _WAITING]
    moved = TaskDep.objects.filter(dependency=old.pk, dependent__in=[row.pk for row in waiting])
    moved.update(dependency=new)
    met = int(new.status == Status.COMPLETED)
    rows.write_many([rows.Write(row, {"unmet_deps": row.unmet_deps - met}) for row in waiting])
    record_all(
        Entry(
            "task.edited",
            chain,
            board_id=row.board_id,
            task_key=row.pk,
            run_id=aftermath.run_of(row),
            from_status=row.status,
            to_status=row.status,
            data={"fields": ["deps"], "instead_of": old.public_id, "waits_for": new.public_id},
        )
        for row in waiting
    )

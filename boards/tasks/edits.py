"""Edits by filers and members, steers, and the field writes for code and operators (spec: 01 sections 2.5 and 4).

The rule of each field is checked as part of the write: a task that starts between a read and the write is refused,
not edited. The table drives the form on the page and the error's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from boards import errors, policy
from boards.actors import Chain
from boards.event_log import Entry, record
from boards.locks import engine_transaction, lock_board
from boards.models import Board, Task, TaskDep
from boards.states import TERMINAL, Status
from boards.tasks import aftermath, by_keys, cleaning, decisions, partitions, rows, verbs
from boards.tasks.filed_fields import check_input, dependency_ended, dependency_loop, not_on_board, not_on_roster
from boards.tasks.types import Reason, Recorded, TaskWriteOutcome

Rule = Literal["before_start", "until_finished"]

TASK_FIELD_RULES: Final[Mapping[str, Rule]] = {
    "goal": "before_start",
    "title": "before_start",
    "context": "before_start",
    "input": "before_start",
    "deps": "before_start",
    "priority": "before_start",
    "labels": "before_start",
    "metadata": "before_start",
    "assignee": "before_start",
    "max_attempts": "before_start",
    "checker": "before_start",
    "due_at": "until_finished",
    "status": "before_start",  # held or pending; cancelled until it finishes, and sent alone
    "message": "until_finished",  # sent alone
}
EDITED_STATUSES: Final = (Status.HELD, Status.PENDING, Status.CANCELLED)
MAX_STEERS: Final = 50

_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "goal": cleaning.checked_goal,
    "title": cleaning.checked_title,
    "context": lambda value: cleaning.checked_text(value, "context"),
    "input": lambda value: cleaning.checked_object(value, "input"),
    "labels": cleaning.checked_labels,
    "metadata": cleaning.checked_metadata,
    "priority": lambda value: cleaning.checked_int(value, "priority", -1_000_000, 1_000_000),
    "assignee": lambda value: cleaning.checked_text(value, "assignee", 100),
    "checker": lambda value: cleaning.checked_text(value, "checker", 100) or "none",
    "max_attempts": lambda value: None if value is None else cleaning.checked_int(value, "max_attempts", 1, 1_000_000),
    "due_at": lambda value: cleaning.checked_moment(value, "due_at"),
}


def has_started(task: Task) -> bool:
    """Whether it was ever claimed."""
    return task.started_at is not None


def locked_fields(task: Task, fields: Iterable[str]) -> list[str]:
    """Those of `fields` that may not be edited now."""
    if task.status in TERMINAL:
        return list(fields)
    return [name for name in fields if TASK_FIELD_RULES.get(name) == "before_start" and has_started(task)]


def update_task(chain: Chain, task: Task | int, *, unless_it_starts: bool = False, **fields: Any) -> TaskWriteOutcome:
    """Edit named fields (flat). `labels` and `deps` replace, `metadata` merges; None in metadata removes the key.

    `unless_it_starts`: raise WouldStart where new dependencies would let it start, so that a person can be asked.
    `status` is held or pending (with other fields, if wanted) or cancelled, alone; `message` is a steer, alone.
    Raises TaskFinished, FieldLocked, NothingToUpdate, InvalidInput, UnknownAssignee, DependencyLoop and its kin,
    CancelTakesNoEdits, MessageTakesNoEdits, MessageNotSupported,
    SteerLimit, TerminalTaskWriteDeclined, TaskWriteDeclined.
    """
    if not fields:
        raise errors.NothingToUpdate
    if unknown := sorted(set(fields) - set(TASK_FIELD_RULES)):
        raise errors.InvalidInput(f"{unknown[0]} cannot be edited.", field=unknown[0])
    if "status" in fields and fields["status"] not in EDITED_STATUSES:
        raise errors.InvalidInput(f"status may be set to {', '.join(EDITED_STATUSES)}.", field="status")
    if "message" in fields:
        if len(fields) > 1:
            raise errors.MessageTakesNoEdits
        return steer(chain, task, fields["message"])
    if fields.get("status") == Status.CANCELLED:
        if len(fields) > 1:
            raise errors.CancelTakesNoEdits
        return _cancel(chain, task)
    return _edit(chain, task, fields, unless_it_starts)


def _cancel(chain: Chain, task: Task | int) -> TaskWriteOutcome:
    """A filer's cancel: refused as finished by what can be seen before it, as declined by what came between."""
    seen = Task.objects.select_related("board").filter(pk=_key(task), board__space=chain.space_id).first()
    if seen is None:
        raise errors.TaskNotFound
    partitions.require_own(chain, seen)
    if seen.status in TERMINAL:
        raise errors.TaskFinished
    via = "person" if chain.acting.kind == "person" else "tool"
    outcome = verbs.cancel(chain, task, via=via)
    if outcome.reason is Reason.TERMINAL:
        raise errors.TerminalTaskWriteDeclined
    if not outcome.landed:
        raise errors.TaskWriteDeclined(outcome.sentence)
    return outcome


@engine_transaction
def _edit(chain: Chain, task: Task | int, fields: dict[str, Any], unless_it_starts: bool) -> TaskWriteOutcome:
    fields = dict(fields)  # a repeat of the transaction starts from the same
    names, status = list(fields), fields.pop("status", None)
    deps = cleaning.checked_ids(fields.pop("deps"), "deps") if "deps" in fields else None
    changes = {name: _CHECKS[name](value) for name, value in fields.items()}
    dependencies = None if deps is None else _lock_with_dependencies(chain, task, deps)
    row, _ = rows.lock_one(task)
    for action in _actions(names, status):
        _require(chain, row, action)
    _refuse_locked(row, names)
    by_keys.require_edit(chain, row, changes)
    refuse_follow_up_assignee(row, changes)
    check_names(row.board, changes, row)
    if "input" in changes:
        check_input(row.board, changes["input"])
    if dependencies is not None:
        changes |= _replace_deps(row, dependencies)
        if unless_it_starts and _starts(row, changes["unmet_deps"], status):
            raise errors.WouldStart(field="deps")
    if "metadata" in changes:
        changes["metadata"] = _merged(row, changes["metadata"])
    if "goal" in changes:
        changes["goal_hash"] = cleaning.goal_hash(changes["goal"])
    if status is not None:
        changes["status"] = Status(status)
    if all(getattr(row, name) == value for name, value in changes.items()) and dependencies is None:
        return TaskWriteOutcome(Recorded.UNCHANGED, row.status)
    return _write(chain, row, changes, _event_kind(row, changes), {"fields": names})


def _starts(row: Task, unmet_deps: int, status: str | None) -> bool:
    """Whether the dependencies were all that kept a Ready task from starting; a hold or a question still does."""
    ready = (status or row.status) == Status.PENDING
    return ready and not row.open_holds and row.unmet_deps > 0 and unmet_deps == 0


def _actions(names: list[str], status: str | None) -> list[str]:
    """What the policy has to allow for an edit of these fields."""
    moves = {Status.HELD: "tasks.hold", Status.PENDING: "tasks.release"}
    edits = ["tasks.edit"] if set(names) - {"status"} else []
    return [*edits, *([moves[Status(status)]] if status is not None else [])]


def _event_kind(row: Task, changes: Mapping[str, Any]) -> str:
    if changes.get("status", row.status) == row.status:
        return "task.edited"
    return "task.held" if changes["status"] == Status.HELD else "task.released"


def _merged(row: Task, patch: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata after a patch, which must not take it over the limit either; None removes a key."""
    kept = {name: value for name, value in {**row.metadata, **patch}.items() if value is not None}
    return cleaning.checked_object(kept, "metadata")


def _refuse_locked(row: Task, names: list[str]) -> None:
    if row.status in TERMINAL:
        raise errors.TaskFinished
    if locked := locked_fields(row, names):
        label = Status(row.status).label
        raise errors.FieldLocked(
            f"{', '.join(locked)} cannot be changed: the task was started and is {label}. Send it a message instead.",
            fields=locked,
        )


def refuse_follow_up_assignee(row: Task, changes: Mapping[str, Any]) -> None:
    """A follow-up stays with its chain: it goes to whoever its root goes to."""
    if row.follow_up_of_id is not None and changes.get("assignee", row.assignee) != row.assignee:
        raise errors.FollowUpTakesNoAssignee(field="assignee")


def check_names(board: Board, changes: Mapping[str, Any], row: Task) -> None:
    """Assignee and checker after an edit: both on the roster, and never the same."""
    assignee, checker = changes.get("assignee", row.assignee), changes.get("checker", row.checker)
    roster = list(board.roster.order_by("position", "name").values_list("name", flat=True))
    if "assignee" in changes and assignee and assignee not in roster:
        raise not_on_roster(assignee, board, roster, field="assignee")
    if "checker" in changes and checker not in {"none", "person", *roster}:
        raise not_on_roster(checker, board, roster, field="checker")
    if checker == assignee and assignee:
        raise errors.InvalidInput("checker must be somebody other than the assignee.", field="checker")


def _lock_with_dependencies(chain: Chain, task: Task | int, wanted: Sequence[str]) -> list[Task]:
    """The new dependencies, locked together with the row in key order, their status read after the lock."""
    seen = Task.objects.select_related("board").filter(pk=_key(task)).first()
    if seen is None:
        raise errors.TaskNotFound
    _require(chain, seen, "tasks.edit")
    lock_board(seen.board_id)
    same = Task.objects.filter(board=seen.board, partition=seen.partition)
    found = dict(same.filter(public_id__in=wanted).values_list("public_id", "pk"))
    if missing := [name for name in wanted if name not in found]:
        raise not_on_board(missing[0])
    locked = rows.lock([_key(task), *found.values()])
    return [locked[key] for key in found.values()]


def _replace_deps(row: Task, dependencies: list[Task]) -> dict[str, Any]:
    for dependency in dependencies:
        if dependency.status in {Status.ERRORED, Status.CANCELLED}:
            raise dependency_ended(dependency.public_id, dependency.status)
    _refuse_loop(row, dependencies)
    TaskDep.objects.filter(dependent=row.pk).delete()
    TaskDep.objects.bulk_create(TaskDep(dependent=row, dependency=dependency) for dependency in dependencies)
    return {"unmet_deps": sum(dependency.status != Status.COMPLETED for dependency in dependencies)}


def _refuse_loop(row: Task, dependencies: list[Task]) -> None:
    """Walk up from the new dependencies; meeting the row closes a loop, refused with its path."""
    frontier = {d.pk: [row.public_id, d.public_id] for d in dependencies}
    seen = set(frontier)
    while frontier:
        if row.pk in frontier:
            raise dependency_loop(frontier[row.pk])
        edges = TaskDep.objects.filter(dependent__in=frontier).values_list(
            "dependent", "dependency", "dependency__public_id"
        )
        nearer = {}
        for dependent, dependency, name in edges:
            if dependency == row.pk or dependency not in seen:
                nearer[dependency] = [*frontier[dependent], name]
        seen |= set(nearer)
        frontier = nearer


@engine_transaction
def steer(chain: Chain, task: Task | int, message: str) -> TaskWriteOutcome:
    """Send a message to a task: the running worker reads it at its next look, or else the next attempt.

    Raises MessageNotSupported for one that was handed in and waits for what it filed: it has neither.
    """
    text = cleaning.required_text(message, "message", 20_000)
    row, now = rows.lock_one(task)
    _require(chain, row, "tasks.steer")
    if row.status in TERMINAL:
        raise errors.TaskFinished
    if decisions.waits_for_filed(row):
        raise errors.MessageNotSupported(
            "It was handed in and waits for the tasks it filed, so nobody reads a message. Send it to one of those."
        )
    if len(row.steers) >= MAX_STEERS:
        raise errors.SteerLimit
    steers = [*row.steers, {"n": len(row.steers) + 1, "text": text, "by": chain.name, "at": now.isoformat()}]
    return _write(chain, row, {"steers": steers}, "task.steered", {"text": text[:500]})


def set_assignee(chain: Chain, task: Task | int, assignee: str) -> TaskWriteOutcome:
    """Re-route a live task; declines on a terminal row, and on a dispatching board while an attempt holds it.

    Raises UnknownAssignee, and as every field write TaskNotFound, Forbidden, InvalidInput.
    """
    checked = cleaning.checked_text(assignee, "assignee", 100)
    return _field_write(chain, task, "task.assignee_changed", lambda row: {"assignee": checked}, live_only=True)


def set_priority(chain: Chain, task: Task | int, priority: int) -> TaskWriteOutcome:
    """Set the priority, from -1,000,000 to 1,000,000, of an ended task too. Raises as every field write."""
    checked = cleaning.checked_int(priority, "priority", -1_000_000, 1_000_000)
    return _field_write(chain, task, "task.priority_changed", lambda row: {"priority": checked})


def add_label(chain: Chain, task: Task | int, label: str) -> TaskWriteOutcome:
    """Add one label, of an ended task too. Raises as every field write."""
    return _field_write(
        chain,
        task,
        "task.labels_changed",
        lambda row: {"labels": cleaning.checked_labels([*row.labels, label])},
    )


def remove_label(chain: Chain, task: Task | int, label: str) -> TaskWriteOutcome:
    """Take one label off, of an ended task too. Raises as every field write."""
    return _field_write(
        chain,
        task,
        "task.labels_changed",
        lambda row: {"labels": [each for each in row.labels if each != label]},
    )


def patch_metadata(chain: Chain, task: Task | int, patch: dict[str, Any]) -> TaskWriteOutcome:
    """Merge into the metadata; always recorded, even where it changes nothing. None removes a key. Raises as every
    field write; a key of the system is InvalidInput.
    """
    checked = cleaning.checked_metadata(patch)
    return _field_write(
        chain, task, "task.metadata_changed", lambda row: {"metadata": _merged(row, checked)}, always=True
    )


@engine_transaction
def _field_write(
    chain: Chain,
    task: Task | int,
    kind: str,
    changes_for: Callable[[Task], dict[str, Any]],
    *,
    live_only: bool = False,
    always: bool = False,
) -> TaskWriteOutcome:
    row, _ = rows.lock_one(task)
    _require(chain, row, "tasks.edit")
    changes = changes_for(row)
    if live_only:
        if row.board.mode == Board.Mode.DELEGATION and row.status == Status.IN_PROGRESS:
            return TaskWriteOutcome(Recorded.DECLINED, row.status, Reason.IMMUTABLE_ASSIGNEE)
        if row.status in TERMINAL:
            return TaskWriteOutcome(Recorded.DECLINED, row.status, Reason.TERMINAL)
        check_names(row.board, changes, row)
    if not always and all(getattr(row, name) == value for name, value in changes.items()):
        return TaskWriteOutcome(Recorded.UNCHANGED, row.status)
    return _write(chain, row, changes, kind, {})


def _write(chain: Chain, row: Task, changes: dict[str, Any], kind: str, data: dict[str, Any]) -> TaskWriteOutcome:
    was = row.status
    if not rows.write(row, changes):
        raise errors.TaskWriteDeclined
    record(
        Entry(
            kind,
            chain,
            board_id=row.board_id,
            task_key=row.pk,
            run_id=aftermath.run_of(row),
            from_status=was,
            to_status=row.status,
            attempt=row.attempts,
            data=data,
        )
    )
    return TaskWriteOutcome(Recorded.RECORDED, row.status)


def _require(chain: Chain, row: Task, action: str) -> None:
    if row.board.space_id != chain.space_id:
        raise errors.TaskNotFound
    partitions.require_own(chain, row)
    policy.require(chain, action, row.board.space_id)
    by_keys.require(chain, row, action)


def _key(task: Task | int) -> int:
    return task.pk if isinstance(task, Task) else task

"""Moves that end nothing: hold, release, retry, start anyway, and a board's pause (spec: 01 section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from boards import errors, policy
from boards.actors import Chain
from boards.debts import owing
from boards.event_log import Entry, record
from boards.locks import engine_transaction, lock_board
from boards.models import Board, Task, TaskDep
from boards.states import Status, Verb
from boards.tasks import aftermath, budgets, by_keys, cleaning, decisions, partitions, rows
from boards.tasks.cleaning import CASCADE_WAS_HELD
from boards.tasks.decisions import Options
from boards.tasks.edits import check_names, refuse_follow_up_assignee
from boards.tasks.types import Reason, Recorded, TaskWriteOutcome

MAX_RETRIED = 500


@engine_transaction
def hold(chain: Chain, task: Task | int, *, if_allowed: bool = False, write: str = "") -> TaskWriteOutcome:
    """Keep a task that was never claimed from being started.

    Raises IllegalTaskTransition for any other, or declines with `if_allowed`; raises TaskNotFound, Forbidden.
    """
    row, now = rows.lock_one(task)
    _require(chain, row, "tasks.hold")
    if row.attempts and row.status == Status.PENDING:
        sentence = "A task that was started cannot be held."
        if if_allowed:
            return _declined(row, Reason.DISALLOWED, sentence)
        raise errors.IllegalTaskTransition(row.public_id, row.status, Status.HELD, sentence)
    return _move(chain, row, _Move(Verb.HOLD, {"status": Status.HELD}, "task.held", if_allowed, write), now)


@engine_transaction
def release(
    chain: Chain, task: Task | int, assignee: str | None = None, *, if_allowed: bool = False, write: str = ""
) -> TaskWriteOutcome:
    """Let a held task start; the same write may set who it goes to.

    Raises IllegalTaskTransition for one that is not held, or declines with `if_allowed`; raises TaskNotFound,
    Forbidden, UnknownAssignee, FollowUpTakesNoAssignee, InvalidInput.
    """
    row, now = rows.lock_one(task)
    _require(chain, row, "tasks.release")
    changes: dict[str, Any] = {"status": Status.PENDING}
    if assignee is not None:
        changes["assignee"] = cleaning.checked_text(assignee, "assignee", 100)
        by_keys.require_edit(chain, row, changes)
        refuse_follow_up_assignee(row, changes)
        check_names(row.board, changes, row)
    return _move(chain, row, _Move(Verb.RELEASE, changes, "task.released", if_allowed, write), now)


@dataclass(frozen=True, slots=True)
class _Move:
    """What a move writes, the event it leaves, and the options of its caller."""

    verb: Verb
    changes: dict[str, Any]
    event: str
    if_allowed: bool = False
    receipt: str = ""


_HELD_AGAIN = _Move(Verb.HOLD, {"status": Status.HELD}, "task.held")


def _move(chain: Chain, row: Task, move: _Move, now: datetime) -> TaskWriteOutcome:
    refusal = decisions.decline(row, move.verb, Options(if_allowed=move.if_allowed), now)
    if refusal is not None:
        return refusal
    was = row.status
    if not rows.write(row, move.changes, receipt=move.receipt):
        raise errors.IllegalTaskTransition(row.public_id, was, str(move.changes["status"]))
    _record(chain, row, move.event, was)
    return TaskWriteOutcome(Recorded.RECORDED, row.status)


def retry(
    chain: Chain, task: Task | int, *, with_dependents: bool = False, requested_by: str = "", write: str = ""
) -> TaskWriteOutcome:
    """Start an errored or cancelled task again: the same row, with its error as feedback.

    `with_dependents` also retries those that its ending cancelled; one that nobody had released is held again.
    `requested_by`: the retry was asked of something else, named here, and reaches the task by it: a flow's step, or the
    task that it depends on. Its event is `task.retry_requested` then, and `task.retried` where the task itself was
    meant. Declines with `disallowed`, `settling`, `dependency-ended` or `retry-budget`; raises TaskNotFound, Forbidden.
    """
    outcome = _retry(chain, task, requested_by, receipt=write)
    if with_dependents and outcome.result is Recorded.RECORDED:
        key = task.pk if isinstance(task, Task) else task
        label = Task.objects.only("title", "goal", "public_id").get(pk=key).label
        for dependent in cancelled_by(key):
            _retry(chain, dependent, f"“{label}”", as_it_was=True)
    return outcome


@engine_transaction
def _retry(
    chain: Chain, task: Task | int, requested_by: str, *, as_it_was: bool = False, receipt: str = ""
) -> TaskWriteOutcome:
    seen = _seen(chain, task)
    early = _no_retry(seen)
    if early is not None:
        return early
    if not budgets.grant_retry(seen.board, seen.partition):
        return _declined(
            seen,
            Reason.RETRY_BUDGET,
            f"The board's limit of {seen.board.max_total_retries} retries is spent.",
        )
    row, now = rows.lock_one(seen)
    late = _no_retry(row)
    if late is not None:
        budgets.take_back_retry(seen.board, seen.partition)
        return late
    was, asked = row.status, aftermath.unasked(row).count()
    was_held = as_it_was and CASCADE_WAS_HELD in row.metadata
    ledger = row.retry_ledger or {"granted": 0, "denied_by_budget": False}
    changes = {
        "status": Status.PENDING,
        "completed_at": None,
        "error": "",
        "feedback": row.error if was == Status.ERRORED else row.feedback,
        "cancelled_via": "",
        "not_before": aftermath.settle_later([row.pk]).get(row.pk),
        "max_attempts": decisions.tries_after_retry(row),
        "retry_ledger": {"granted": ledger["granted"] + 1, "denied_by_budget": False},
        "metadata": _unmarked(row),
        "open_holds": row.open_holds + asked,
    }
    if not rows.write(row, changes, receipt=receipt):
        budgets.take_back_retry(seen.board, seen.partition)
        return _declined(row, Reason.DISALLOWED, "The task changed meanwhile.")
    if asked:
        aftermath.ask_again(chain, row)
    kind, data = ("task.retry_requested", {"with": requested_by}) if requested_by else ("task.retried", {})
    _record(chain, row, kind, was, data)
    if was_held:
        return _move(chain, row, _HELD_AGAIN, now)
    return TaskWriteOutcome(Recorded.RECORDED, row.status)


def _unmarked(row: Task) -> dict[str, Any]:
    """The metadata without what a cascade marked it with."""
    return {k: v for k, v in row.metadata.items() if not k.startswith("orchestra:cascade")}


def _no_retry(row: Task) -> TaskWriteOutcome | None:
    if row.status not in {Status.ERRORED, Status.CANCELLED}:
        return _declined(row, Reason.DISALLOWED, "Only a Stuck or Skipped task can be retried.")
    if row.withdrawn:
        return _declined(row, Reason.DISALLOWED, "The due time passed. File it again as a new task.")
    if owing.is_settling(row.pk):
        return _declined(row, Reason.SETTLING, "Its last ending is still being settled. Try again in a moment.")
    ended = (
        TaskDep.objects.filter(dependent=row.pk, dependency__status__in=[Status.ERRORED, Status.CANCELLED])
        .select_related("dependency")
        .first()
    )
    if ended:
        return _declined(
            row,
            Reason.DEPENDENCY_ENDED,
            f"“{ended.dependency.label}” ended without completing; retry that first.",
        )
    return None


def cancelled_by(key: int) -> list[int]:
    """Keys of all that the cascade of this task's ending cancelled, nearest first: the order they can be retried in."""
    found: list[int] = []
    level = list(Task.objects.filter(pk=key).values_list("pk", "public_id"))
    while level and len(found) < MAX_RETRIED:
        marked = Task.objects.filter(
            status=Status.CANCELLED,
            cancelled_via="cascade",
            dep_edges__dependency__in=[pk for pk, _ in level],
            **{"metadata__orchestra:cascade_from__in": [name for _, name in level]},
        ).exclude(pk__in=found)
        level = list(marked.order_by("pk").distinct().values_list("pk", "public_id"))
        found += [pk for pk, _ in level]
    return found[:MAX_RETRIED]


@engine_transaction
def start_anyway(chain: Chain, task: Task | int) -> TaskWriteOutcome:
    """A person lets a dependent that never ran go without the dependencies that ended without completing.

    It takes out what can never be met and nothing else: a hold, an open question and other dependencies still block.
    """
    seen = _seen(chain, task, "tasks.edit")
    if chain.acting.kind != "person":
        raise errors.Forbidden("Only a person lets a task start without what it waits for.")
    lock_board(seen.board_id)
    row, now = rows.lock_one(seen)
    if row.started_at is not None or row.status not in {Status.PENDING, Status.HELD, Status.CANCELLED} or row.withdrawn:
        raise errors.IllegalTaskTransition(
            row.public_id, row.status, Status.PENDING, "Only a task that never ran can start anyway."
        )
    ended = TaskDep.objects.filter(dependent=row.pk, dependency__status__in=[Status.ERRORED, Status.CANCELLED])
    edges = dict(ended.values_list("pk", "dependency__public_id"))
    if not edges:
        raise errors.IllegalTaskTransition(
            row.public_id, row.status, Status.PENDING, "No dependency of it has ended without completing."
        )
    removed, _ = TaskDep.objects.filter(pk__in=edges).delete()
    was, asked = row.status, 0
    was_held = was == Status.CANCELLED and CASCADE_WAS_HELD in row.metadata
    changes: dict[str, Any] = {"unmet_deps": row.unmet_deps - removed}
    if was == Status.CANCELLED:
        asked = aftermath.unasked(row).count()
        changes |= {"status": Status.PENDING, "completed_at": None, "error": "", "cancelled_via": ""}
        changes |= {"metadata": _unmarked(row), "open_holds": row.open_holds + asked}
    if not rows.write(row, changes):
        raise errors.IllegalTaskTransition(row.public_id, was, Status.PENDING)
    if asked:
        aftermath.ask_again(chain, row)
    _record(chain, row, "task.edited", was, {"start_anyway_without": list(edges.values())})
    if was_held:
        return _move(chain, row, _HELD_AGAIN, now)
    return TaskWriteOutcome(Recorded.RECORDED, row.status)


@engine_transaction
def set_paused(chain: Chain, board: Board, paused: bool) -> None:
    """Pause or resume a board: a paused one hands out nothing, running work goes on."""
    if board.space_id != chain.space_id:
        raise errors.BoardNotFound
    policy.require(chain, "boards.pause", board.space_id)
    if Board.objects.filter(pk=board.pk, paused=not paused).update(paused=paused):
        record(Entry("board.paused" if paused else "board.resumed", chain, board_id=board.pk))


def _seen(chain: Chain, task: Task | int, action: str = "tasks.retry") -> Task:
    key = task.pk if isinstance(task, Task) else task
    row = Task.objects.select_related("board").filter(pk=key, board__space=chain.space_id).first()
    if row is None:
        raise errors.TaskNotFound
    partitions.require_own(chain, row)
    policy.require(chain, action, row.board.space_id)
    by_keys.require(chain, row, action)
    return row


def _require(chain: Chain, row: Task, action: str) -> None:
    if row.board.space_id != chain.space_id:
        raise errors.TaskNotFound
    partitions.require_own(chain, row)
    policy.require(chain, action, row.board.space_id)
    by_keys.require(chain, row, action)


def _declined(row: Task, reason: Reason, sentence: str) -> TaskWriteOutcome:
    return TaskWriteOutcome(Recorded.DECLINED, row.status, reason, sentence)


def _record(chain: Chain, row: Task, kind: str, was: str, data: dict[str, Any] | None = None) -> None:
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
            data=data or {},
        )
    )

"""How work ends: complete, fail, cancel, skip, hand back, accept, send back, reclaim, abandon (spec: 01 section 2).

One path for all: take the retry budget, lock the rows and their dependents in order, decide, write each row guarded,
count the dependents down in a statement of its own, then attempts, holds, debts and events. Many endings settle in
one transaction.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from boards.actors import Chain
from boards.errors import TaskNotFound
from boards.event_log import Entry, record_all
from boards.lines import lines, literal
from boards.locks import Rank, engine_transaction, taking
from boards.models import Attempt, Board, Task
from boards.states import Status, Verb
from boards.tasks import aftermath, budgets, decisions, filed_work, notices, plain_rows, recording, rows
from boards.tasks.cleaning import report_json, report_line
from boards.tasks.decisions import Options
from boards.tasks.plain_rows import Statement
from boards.tasks.types import Reason, Recorded, TaskWriteOutcome

FIRST_BACKOFF_MS = 2_000
LONGEST_BACKOFF_MS = 300_000
_CLEARED = {
    "lease_until": None,
    "lease_duration_ms": None,
    "claimed_by": None,
    "kept_open_by": "",
    "resume_ready_at": None,
}


@dataclass(frozen=True, slots=True)
class Settlement:
    """One ending that is asked for. `for_good`: no try is used even where one is left."""

    verb: Verb
    chain: Chain
    task_key: int
    options: Options = field(default_factory=Options)
    output: Any = None
    text: str = ""  # the error, the reason, or the checker's words
    for_good: bool = False
    via: str = ""
    cause: str = ""
    cancel_filed: bool = False
    receipt: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    told: frozenset[str] = frozenset()  # sessions that hear of it by the ending that cascaded here
    due_at: datetime | None = None  # the due time that passed, of a withdraw
    asked: bool = False  # the turn asked a person beside the task's own questions
    looked_again: bool = False  # nobody hands in: a task that it filed has ended


@dataclass(slots=True)
class Ended:
    """One ending that landed, with what the rest of the transaction has to know about the row before it."""

    settlement: Settlement
    task: Task
    was: str
    ending: str  # of the attempt; "" where none was open
    claimed_by: dict[str, Any] | None
    lease_ms: int | None
    was_kept: str  # what kept it open, its turn over; "" where a worker was at it, or none
    run_id: int | None = None  # the flow run whose step the task is


@engine_transaction
def settle_many(
    settlements: Sequence[Settlement], *, closing: Callable[[int], object] | None = None
) -> list[TaskWriteOutcome]:
    """End many rows in one transaction; the answers stand in the order of the settlements.

    `closing` closes other questions in the same write, where the lock order has its place for holds; it is told how
    many rows ended. Raises IllegalTaskTransition (and writes nothing) where one is refused and nothing softens it.
    """
    settlements = [replace(s, text=report_line(s.text)) if s.text else s for s in settlements]
    budget = _Budget(settlements)
    locked = rows.lock_to_end(s.task_key for s in settlements)
    handed_in = {s.task_key for s in settlements if s.verb is Verb.COMPLETE}
    keeping = filed_work.keeping(handed_in & locked.filers)
    planned = _plan_all(settlements, locked, budget, keeping)
    landed = rows.write_many([plan.write for plan in planned if isinstance(plan, _Plan)])
    budget.give_back_unused(landed)
    outcomes = [_outcome(plan, landed) for plan in planned]
    written = [plan for plan in planned if isinstance(plan, _Plan) and plan.ended.task.pk in landed]
    of_runs = aftermath.runs_of(plan.ended.task for plan in written)
    for plan in written:
        plan.ended.run_id = of_runs.get(plan.ended.task.visit_id or 0)
    ended = [plan.ended for plan in written if not plan.keeps]
    kept = [plan.ended for plan in written if plan.keeps]
    completed = [e.task.pk for e in ended if e.task.status == Status.COMPLETED]
    taking(Rank.ATTEMPT)
    # One trip, and a snapshot for each.
    after = [aftermath.count_down(completed)] if completed else []
    plain_rows.answers([*after, *_close_attempts(ended)])
    aftermath.discard_holds(ended)
    if closing is not None:
        closing(len(ended))
    waited_for = aftermath.waited_for(ended)
    told = {one.task.pk: aftermath.owe(one, one.task.pk in waited_for) for one in ended}
    filed_work.owe_looks(ended, told)
    for plan in written:
        if plan.unrecorded:
            recording.note_failure(plan.ended.task, *plan.unrecorded)
    notices.release(one.task.pk for one in [*ended, *kept] if one.ending)
    record_all([*map(_event, ended), *(filed_work.kept_event(one) for one in kept)])
    return outcomes


def settle(settlement: Settlement) -> TaskWriteOutcome:
    return settle_many([settlement])[0]


class _Budget:
    """Retries taken before any task row is locked, for failures that look soft; what is not used goes back."""

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self._free: Counter[tuple[int, str]] = Counter()
        self._used: dict[int, tuple[int, str]] = {}
        self._boards: dict[int, Board] = {}
        keys = [s.task_key for s in settlements if s.verb is Verb.FAIL and not s.for_good]
        if not keys:
            return
        for task in Task.objects.filter(pk__in=keys).select_related("board").order_by("board_id", "pk"):
            if decisions.failure_is_soft(task):
                board = self._boards.setdefault(task.board_id, task.board)
                self._free[board.pk, task.partition] += budgets.grant_retry(board, task.partition)

    def use(self, task: Task) -> bool:
        """Whether a retry is left for this failure; one that a declined failure does not need serves another."""
        place = task.board_id, task.partition
        if self._free[place] < 1:
            return False
        self._free[place] -= 1
        self._used[task.pk] = place
        return True

    def give_back_unused(self, landed: Collection[int]) -> None:
        """What no write used goes back, and what was used by one that did not land."""
        self._free.update(place for key, place in self._used.items() if key not in landed)
        for (board_id, partition), count in self._free.items():
            for _ in range(count):
                budgets.take_back_retry(self._boards[board_id], partition)


@dataclass(slots=True)
class _Plan:
    write: rows.Write
    ended: Ended
    keeps: bool = False  # it is no ending: tasks that it filed keep the row open
    unrecorded: tuple[str, str] | None = None  # the ending that the board's own code did not take down, and why


def _plan_all(
    settlements: Sequence[Settlement], locked: rows.Locked, budget: _Budget, keeping: Collection[int]
) -> list[_Plan | TaskWriteOutcome]:
    plans: dict[int, _Plan] = {}
    planned = []
    for settlement in settlements:
        before = plans.get(settlement.task_key)
        one = _repeat(before, settlement, locked) if before else _plan(settlement, locked, budget, keeping)
        if isinstance(one, _Plan):
            plans[settlement.task_key] = one
        planned.append(one)
    return planned


def _plan(
    settlement: Settlement, locked: rows.Locked, budget: _Budget, keeping: Collection[int]
) -> _Plan | TaskWriteOutcome:
    """What to write for one settlement, or why nothing is."""
    task = locked.get(settlement.task_key)
    if task is None or task.board.space_id != settlement.chain.space_id:
        raise TaskNotFound
    refusal = decisions.decline(task, settlement.verb, settlement.options, locked.now)
    refusal = refusal or _still_asking(settlement, task)
    if refusal is not None:
        return refusal
    if settlement.verb is Verb.COMPLETE:
        match decisions.hand_in(task, looked_again=settlement.looked_again, keeping=task.pk in keeping):
            case decisions.HandIn.NOTHING:
                return TaskWriteOutcome(Recorded.UNCHANGED, task.status)
            case decisions.HandIn.KEEP:
                return _keep(settlement, task)
    changes, ending = _changes(settlement, task, budget, locked.now)
    name = recording.ending_name(settlement.verb, changes["status"])
    problem = recording.add_metadata(task, name, changes)
    write = rows.Write(task, changes, settlement.options.claim is not None, settlement.receipt)
    ending = ending if task.status == Status.IN_PROGRESS else ""
    return _Plan(write, _seen(settlement, task, ending), unrecorded=(name, problem) if problem else None)


def _keep(settlement: Settlement, task: Task) -> _Plan:
    """The turn is over, and the task stays open for what it filed."""
    changes = filed_work.kept(report_json(settlement.output))
    write = rows.Write(task, changes, settlement.options.claim is not None, settlement.receipt)
    return _Plan(write, _seen(settlement, task, Attempt.Ending.COMPLETED), keeps=True)


def _seen(settlement: Settlement, task: Task, ending: str) -> Ended:
    return Ended(settlement, task, task.status, ending, task.claimed_by, task.lease_duration_ms, task.kept_open_by)


def _repeat(before: _Plan, settlement: Settlement, locked: rows.Locked) -> TaskWriteOutcome:
    """A second ending of one row in one batch finds the row as the first leaves it, and changes nothing."""
    after = copy.copy(before.ended.task)
    if before.keeps:
        return TaskWriteOutcome(Recorded.DECLINED, after.status, Reason.LOST_CLAIM, "It was handed in meanwhile.")
    after.status, after.lease_until = before.write.changes["status"], None
    refusal = decisions.decline(after, settlement.verb, replace(settlement.options, advisory=True), locked.now)
    return refusal or TaskWriteOutcome(Recorded.DECLINED, after.status, Reason.LOST_CLAIM, "It has ended meanwhile.")


def _still_asking(settlement: Settlement, task: Task) -> TaskWriteOutcome | None:
    """A worker that asked and then returned or raised owes no result: that never overwrites the wait (spec: 04, 1.5).

    One that ends its task for good says so, and takes its question back with it.
    """
    returned = settlement.verb in {Verb.COMPLETE, Verb.FAIL} and not settlement.for_good
    if not returned or not task.open_holds:
        return None
    sentence = "The task waits on a person; its run has to be suspended until the answer is there."
    return TaskWriteOutcome(Recorded.DECLINED, task.status, Reason.DISALLOWED, sentence)


def _outcome(plan: _Plan | TaskWriteOutcome, landed: set[int]) -> TaskWriteOutcome:
    if isinstance(plan, TaskWriteOutcome):
        return plan
    if plan.ended.task.pk in landed:
        return TaskWriteOutcome(Recorded.RECORDED, plan.ended.task.status)
    # Only the lease can have run out between the look and the write: the row itself is locked.
    return TaskWriteOutcome(Recorded.DECLINED, plan.ended.was, Reason.LOST_CLAIM, "The lease ran out.")


def _changes(settlement: Settlement, task: Task, budget: _Budget, now: datetime) -> tuple[dict[str, Any], str]:
    """The named fields that this ending writes, and how the open attempt ended."""
    text = settlement.text
    match settlement.verb:
        case Verb.COMPLETE:
            return _complete(settlement, task)
        case Verb.FAIL:
            return _fail(settlement, task, text, budget)
        case Verb.ACCEPT:
            return {"status": Status.COMPLETED, "completed_at": rows.NOW}, ""
        case Verb.SEND_BACK:
            return _send_back(task, text)
        case Verb.HAND_BACK:
            return {**_CLEARED, "status": Status.PENDING}, Attempt.Ending.HANDED_BACK
        case Verb.RECLAIM:
            return {**_CLEARED, "status": Status.PENDING}, Attempt.Ending.RECLAIMED
        case Verb.ABANDON:
            error = f"Task {task.public_id} lost its worker {task.abandonments + 1} times and is not handed out again."
            return _errored(task, error), Attempt.Ending.ABANDONED
        case Verb.CANCEL | Verb.SKIP:
            metadata = {**task.metadata, **settlement.metadata}
            return {**_cancelled(settlement, text), "metadata": metadata}, Attempt.Ending.CANCELLED
        case Verb.FLOW_DEADLINE:
            withdrawn = {"reason": "timeout", "at": now.isoformat()}
            return {**_cancelled(settlement, text), "withdrawn": withdrawn}, Attempt.Ending.WITHDRAWN
    raise AssertionError(f"{settlement.verb} ends nothing.")


def _complete(settlement: Settlement, task: Task) -> tuple[dict[str, Any], str]:
    to = decisions.completes_to(task)
    done = to == Status.COMPLETED
    changes = {
        **_CLEARED,
        "status": to,
        "output": settlement.output if settlement.looked_again else report_json(settlement.output),
        "output_is_checkpoint": False,
    }
    changes |= {"error": "", "completed_at": rows.NOW if done else None}
    return changes, Attempt.Ending.COMPLETED if done else Attempt.Ending.HANDED_IN


def _fail(settlement: Settlement, task: Task, error: str, budget: _Budget) -> tuple[dict[str, Any], str]:
    if settlement.for_good or not decisions.failure_is_soft(task):
        return {**_errored(task, error), "failures": task.failures + 1}, Attempt.Ending.FAILED
    ledger = task.retry_ledger or {"granted": 0, "denied_by_budget": False}
    if not budget.use(task):
        limit = task.board.max_total_retries
        error = f"{error}\nNot tried again: the board's limit of {limit} retries is spent."
        ledger = {**ledger, "denied_by_budget": True}
        changes = {**_errored(task, error), "failures": task.failures + 1, "retry_ledger": ledger}
        return changes, Attempt.Ending.FAILED
    ledger = {**ledger, "granted": ledger["granted"] + 1}
    changes = {**_CLEARED, "status": Status.PENDING, "error": "", "feedback": error, "retry_ledger": ledger}
    wait = _backoff(task.board.retry_backoff_ms, ledger["granted"])
    changes |= {"failures": task.failures + 1, "not_before": rows.Clock(wait) if wait else None}
    return changes, Attempt.Ending.FAILED


def _cancelled(settlement: Settlement, reason: str) -> dict[str, Any]:
    changes = {**_CLEARED, "status": Status.CANCELLED, "completed_at": rows.NOW, "error": reason}
    return {**changes, "cancelled_via": settlement.via}


def _errored(task: Task, error: str) -> dict[str, Any]:
    return {**_CLEARED, "status": Status.ERRORED, "error": error, "completed_at": rows.NOW}


def _backoff(first_ms: int, granted: int) -> float:
    """Milliseconds: the board's wait before the first retry; later ones from 2 s, doubling to 5 min, with jitter."""
    if granted <= 1:
        return first_ms
    span = min(FIRST_BACKOFF_MS * 2 ** (granted - 2), LONGEST_BACKOFF_MS)
    return span * random.uniform(0.75, 1.25)  # noqa: S311 (jitter, not a secret)


def _send_back(task: Task, words: str) -> tuple[dict[str, Any], str]:
    if not task.board.send_back_spends_try:
        return {"status": Status.PENDING, "feedback": words}, ""
    failures = task.failures + 1
    if task.max_attempts is not None and failures < task.max_attempts:
        return {"status": Status.PENDING, "feedback": words, "failures": failures}, ""
    return {**_errored(task, words), "feedback": words, "failures": failures}, ""


def _close_attempts(ended: Sequence[Ended]) -> list[Statement]:
    """The statement that ends the open attempts of these rows, where there are any."""
    closing = [one for one in ended if one.ending]
    if not closing:
        return []
    values = [(one.task.pk, str(one.ending), _attempt_error(one), _attempt_output(one)) for one in closing]
    source, params = lines(values, _CLOSED)
    return [(_CLOSE.format(source), [*params, literal([one.task.pk for one in closing])])]


_CLOSED = {"task": "bigint", "ending": "text", "error": "text", "output": "jsonb"}
_CLOSE = """
    update boards_attempt a
       set ended_at = statement_timestamp(), ending = v.ending, error = v.error, output = v.output
      from {}
     where a.task_id = any(%s::bigint[]) and a.task_id = v.task and a.ended_at is null"""


def _attempt_error(one: Ended) -> str:
    failed = one.ending == Attempt.Ending.FAILED
    return one.task.error or (one.task.feedback if failed else "") or one.settlement.text


def _attempt_output(one: Ended) -> str | None:
    handed_in = one.settlement.verb is Verb.COMPLETE and one.task.output is not None
    return json.dumps(one.task.output) if handed_in else None


_EVENT_KINDS = {
    Verb.FAIL: "task.errored",
    Verb.ABANDON: "task.errored",
    Verb.HAND_BACK: "task.handed_back",
    Verb.RECLAIM: "task.reclaimed",
    Verb.CANCEL: "task.cancelled",
    Verb.SKIP: "task.skipped",
    Verb.FLOW_DEADLINE: "task.withdrawn",
    Verb.ACCEPT: "task.checked",
    Verb.SEND_BACK: "task.checked",
}


def _event(one: Ended) -> Entry:
    task, settlement = one.task, one.settlement
    data: dict[str, Any] = {"text": settlement.text[:2000]} if settlement.text else {}
    if settlement.verb in {Verb.ACCEPT, Verb.SEND_BACK}:
        data["verdict"] = "accepted" if settlement.verb is Verb.ACCEPT else "sent back"
    if settlement.verb is Verb.FAIL and task.status == Status.PENDING:
        data["will_retry"] = True
    if settlement.verb is Verb.ABANDON:
        data["text"] = task.error
    if settlement.due_at is not None:
        data["due_at"] = settlement.due_at.isoformat()
    kind = _EVENT_KINDS.get(settlement.verb, "task.completed")
    if settlement.verb is Verb.COMPLETE and task.status == Status.NEEDS_CHECK:
        kind = "task.handed_in"
    return Entry(
        kind=kind,
        chain=settlement.chain,
        board_id=task.board_id,
        task_key=task.pk,
        run_id=one.run_id,
        cause=settlement.cause or settlement.via,
        from_status=one.was,
        to_status=task.status,
        attempt=task.attempts,
        data=data,
    )

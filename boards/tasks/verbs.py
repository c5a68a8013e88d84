"""The named verbs that end work or send it on; each is one settlement with the caller's rights checked (spec: 01, 02).

Verbs answer a `TaskWriteOutcome`; a move that the state machine refuses raises `IllegalTaskTransition` unless an
option softens it. `cancel` is always advisory.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from boards import errors, policy
from boards.actors import Chain
from boards.debts import owing
from boards.locks import engine_transaction
from boards.models import Attempt, Task
from boards.states import Status, Verb
from boards.tasks import by_keys, check_words, partitions, rows
from boards.tasks.aftermath import WITHDRAW, WITHDRAWN_WORDS
from boards.tasks.cleaning import MAX_REASON, MAX_WORDS, checked_text, required_text
from boards.tasks.decisions import Options
from boards.tasks.endings import Settlement, settle, settle_many
from boards.tasks.types import Recorded, TaskWriteOutcome, Ticket


def complete(
    chain: Chain, task: Task | int, output: Any, *, claim: Ticket, if_allowed: bool = False, write: str = ""
) -> TaskWriteOutcome:
    """Hand in the result: done, or to the checker where the task has one. Under the claim's ticket only.

    Declines with `terminal`, `not-my-task`, `disallowed` or `lost-claim`; raises TaskNotFound.
    """
    options = Options(claim=claim, if_allowed=if_allowed)
    return settle(Settlement(Verb.COMPLETE, chain, _key(task), options, output=output, receipt=write))


def fail(
    chain: Chain,
    task: Task | int,
    error: str,
    *,
    claim: Ticket,
    if_allowed: bool = False,
    for_good: bool = False,
    write: str = "",
) -> TaskWriteOutcome:
    """Record a failure: tried again while a try and the board's budget are left, else errored. Declines as `complete`;
    raises TaskNotFound.
    """
    options = Options(claim=claim, if_allowed=if_allowed)
    text = error or "The worker failed without saying why."
    return settle(Settlement(Verb.FAIL, chain, _key(task), options, text=text, for_good=for_good, receipt=write))


def end_for_good(
    chain: Chain,
    task: Task | int,
    reason: str,
    *,
    claim: Ticket,
    ending: str,
    if_allowed: bool = False,
    write: str = "",
) -> TaskWriteOutcome:
    """What `EndsForGood` asks for: `errored` or `cancelled` on this attempt, tries left unspent. Declines as
    `complete`; raises TaskNotFound.
    """
    if ending == "errored":
        return fail(chain, task, reason, claim=claim, if_allowed=if_allowed, for_good=True, write=write)
    options = Options(claim=claim, advisory=True)
    return settle(Settlement(Verb.CANCEL, chain, _key(task), options, text=reason, via="worker", receipt=write))


def hand_back(
    chain: Chain, task: Task | int, *, claim: Ticket, reason: str = "", if_allowed: bool = False, write: str = ""
) -> TaskWriteOutcome:
    """Give the task back unworked: pending again, no try and no abandonment spent. Declines as `complete`; raises
    TaskNotFound.
    """
    options = Options(claim=claim, if_allowed=if_allowed)
    return settle(Settlement(Verb.HAND_BACK, chain, _key(task), options, text=reason, receipt=write))


def cancel(
    chain: Chain,
    task: Task | int,
    reason: str = "",
    *,
    via: str = "person",
    cause: str = "",
    cancel_filed: bool = False,
    metadata: dict[str, Any] | None = None,
    write: str = "",
) -> TaskWriteOutcome:
    """Cancel what has not ended. The write comes first; a worker that still runs is stopped as a debt.

    Declines with `terminal`, also a repeat; raises TaskNotFound, Forbidden, and InvalidInput for too long a reason.
    """
    row = _visible(chain, task, "tasks.cancel")
    words = checked_text(reason, "reason", MAX_REASON)
    return settle(
        Settlement(
            Verb.CANCEL,
            chain,
            row.pk,
            Options(advisory=True),
            text=words,
            via=via,
            cause=cause,
            cancel_filed=cancel_filed,
            metadata=metadata or {},
            receipt=write,
        )
    )


def skip(chain: Chain, task: Task | int, reason: str, *, if_allowed: bool = False, write: str = "") -> TaskWriteOutcome:
    """A person sets a Stuck or Ready task aside, with a reason.

    Raises IllegalTaskTransition from any other status, or declines with `if_allowed`; raises TaskNotFound, Forbidden,
    and InvalidInput without a reason.
    """
    row = _visible(chain, task, "tasks.skip")
    if chain.acting.kind != "person":
        raise errors.Forbidden("Only a person may skip a task.")
    words, options = required_text(reason, "reason", MAX_REASON), Options(if_allowed=if_allowed)
    return settle(Settlement(Verb.SKIP, chain, row.pk, options, text=words, via="person", receipt=write))


def withdraw(
    chain: Chain, task: Task | int, *, due_at: datetime | None = None, if_allowed: bool = False, write: str = ""
) -> TaskWriteOutcome:
    """The Flows service ends a task whose step's due time passed, in one write that nothing reopens.

    `due_at` is the true due time, for the event. Refused to every other chain: `tasks.withdraw` is in the Flows
    manifest and in no role, and the acting hop decides. A completed task raises IllegalTaskTransition, or declines
    with `if_allowed`: whichever of the two came first has won (spec: 01 "Withdraw", 05 section 4). Raises TaskNotFound,
    and Forbidden to whom it is refused.
    """
    return settle(_withdrawal(chain, _key(task), due_at, if_allowed, write))


def withdraw_many(
    chain: Chain, due: Mapping[int, datetime | None], *, if_allowed: bool = False
) -> list[TaskWriteOutcome]:
    """Withdraw the tasks of one stay in one write: key -> the due time that passed; answers in that order."""
    return settle_many([_withdrawal(chain, key, due_at, if_allowed) for key, due_at in due.items()])


def _withdrawal(chain: Chain, key: int, due_at: datetime | None, if_allowed: bool, receipt: str = "") -> Settlement:
    return Settlement(
        Verb.FLOW_DEADLINE,
        chain,
        _visible(chain, key, "tasks.withdraw").pk,
        Options(if_allowed=if_allowed),
        text=WITHDRAWN_WORDS,
        via="flow",
        cause=WITHDRAW,
        due_at=due_at,
        receipt=receipt,
    )


def reclaim(chain: Chain, task: Task | int) -> TaskWriteOutcome:
    """An operator puts a task that lost its worker back to Ready.

    Declines with `terminal` or `disallowed` by its status, and `lost-claim` while the lease is renewed; raises
    TaskNotFound, Forbidden.
    """
    row = _visible(chain, task, "tasks.reclaim")
    return settle(Settlement(Verb.RECLAIM, chain, row.pk, Options(if_allowed=True, if_lapsed=True)))


@engine_transaction
def accept(
    chain: Chain, task: Task | int, words: str = "", *, shown: int = 0, if_allowed: bool = False, write: str = ""
) -> TaskWriteOutcome:
    """The checker takes the result, with words if there are any; whoever handed it in never may.

    `shown`: the attempt whose result the checker read, 0 where nobody says. Another one that was handed in since raises
    DraftChanged; a result that somebody has decided on raises AlreadyChecked with who, what and when. Raises
    IllegalTaskTransition where none waits, or declines with `if_allowed`; raises TaskNotFound, Forbidden.
    """
    row = _checkable(chain, task)
    text = checked_text(words, "words", MAX_WORDS)
    if shown and (repeat := _bound_to(chain, row, shown, Verb.ACCEPT, text)):
        return repeat
    return settle(Settlement(Verb.ACCEPT, chain, row.pk, Options(if_allowed=if_allowed), text=text, receipt=write))


@engine_transaction
def send_back(
    chain: Chain, task: Task | int, words: str, *, shown: int = 0, if_allowed: bool = False, write: str = ""
) -> TaskWriteOutcome:
    """The checker's words become the feedback of the next attempt; `shown` as of `accept`. Raises as `accept` does, and
    InvalidInput without words.
    """
    row = _checkable(chain, task)
    text = required_text(words, "words", MAX_WORDS)
    if shown and (repeat := _bound_to(chain, row, shown, Verb.SEND_BACK, text)):
        return repeat
    return settle(Settlement(Verb.SEND_BACK, chain, row.pk, Options(if_allowed=if_allowed), text=text, receipt=write))


def stopping(task: Task | int) -> bool:
    """Whether the stop of the task's worker is still owed; pages say "stopping…" until then."""
    return owing.is_owed("session_stop", _key(task))


def _bound_to(chain: Chain, row: Task, shown: int, verb: Verb, words: str = "") -> TaskWriteOutcome | None:
    """Nothing where the row, which is locked, still waits with the result that was shown; `unchanged` for a repeat."""
    if row.status == Status.NEEDS_CHECK and row.attempts == shown:
        return None
    if check_words.is_repeat(row, shown, verb, chain.user_id, words):
        return TaskWriteOutcome(Recorded.UNCHANGED, row.status)
    told = check_words.decided_words(row, shown)
    if row.status == Status.NEEDS_CHECK:
        raise errors.DraftChanged(f"{told} It was handed in again; the new result is shown, decide again.")
    raise errors.AlreadyChecked(told)


def _key(task: Task | int) -> int:
    return task.pk if isinstance(task, Task) else task


def _visible(chain: Chain, task: Task | int, action: str) -> Task:
    """The row, where the chain may do this in its space; what it may not see does not exist."""
    row = Task.objects.select_related("board").filter(pk=_key(task), board__space=chain.space_id).first()
    if row is None:
        raise errors.TaskNotFound
    partitions.require_own(chain, row)
    policy.require(chain, action, row.board.space_id)
    by_keys.require(chain, row, action)
    return row


def _checkable(chain: Chain, task: Task | int) -> Task:
    """The row, locked as its ending locks it: who handed it in must not change between the look and the write."""
    key = _visible(chain, task, "tasks.check").pk
    row = rows.lock_to_end([key]).get(key)
    if row is None:
        raise errors.TaskNotFound
    if row.status != Status.NEEDS_CHECK:
        return row
    handed_in = row.attempt_rows.filter(ending=Attempt.Ending.HANDED_IN).last()
    if handed_in and chain.user_id and (handed_in.claimed_by or {}).get("user") == chain.user_id:
        raise errors.Forbidden("You handed this in, so somebody else has to check it.")
    by = (handed_in.claimed_by or {}).get("name") if handed_in else None  # an outside worker's key
    if handed_in and chain.key is not None and chain.acting.name in {handed_in.assignee, by}:
        raise errors.Forbidden(f"{handed_in.assignee} handed this in, so somebody else has to check it.")
    if handed_in and handed_in.assignee == row.checker:
        raise errors.Forbidden(f"{row.checker} handed this in, so somebody else has to check it.")
    named = row.board.roster.filter(name=row.checker).first()
    if row.checker != "person" and (named is None or named.user_id != chain.user_id):
        raise errors.Forbidden(f"This is checked by {row.checker}.")
    return row

"""Checks by agents: a hand-in becomes a task of its checker's own, and that task's output is the verdict (spec: 04, 5).

The verdict is data: only "accept" accepts. Whatever else came of the check (no verdict, an error, too many send backs)
leaves the result to a person; nothing is accepted because a check ran through.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from boards import errors
from boards.actors import Chain, Hop, service
from boards.debts.kinds import pays
from boards.event_log import Entry, record
from boards.locks import engine_transaction
from boards.models import AgentCheck, Board, Debt, Task, TranscriptItem
from boards.states import Status
from boards.tasks import accept, aftermath, file_task, rows, send_back
from boards.tasks.cleaning import MAX_WORDS
from boards.tasks.types import Filing

KIND: Final = aftermath.LATE_CHECK
SPOKEN: Final = 200  # lines of the transcript that go with the result
_YES: Final = frozenset({"accept", "accepted", "approve", "approved", "ok", "pass", "yes"})
_NO: Final = frozenset({"send_back", "sent_back", "reject", "rejected", "request_changes", "fail", "no"})


@pays(KIND)
def pay_late_check(debt: Debt) -> bool:
    """A hand-in is given to its agent, or an agent's verdict is carried out."""
    if debt.data["part"] == "verdict":
        carry_out(int(debt.data["check_task"]))
    else:
        hand_to_checker(int(debt.data["task"]), int(debt.data["attempt"]))
    return True


@engine_transaction
def hand_to_checker(task_key: int, attempt: int) -> AgentCheck | None:
    """File the check of one hand-in, once; None where a person has to check it, or nobody any more."""
    row = Task.objects.select_related("board").get(pk=task_key)
    if row.status != Status.NEEDS_CHECK or row.attempts != attempt:
        return None
    known = AgentCheck.objects.filter(task=row, attempt=attempt).first()
    if known is not None:
        return known
    entry = row.board.roster.filter(name=row.checker).exclude(kind="person").first()
    if entry is None:
        return None  # somebody changed the checker meanwhile
    chain = _filing_chain(row)
    if _send_backs(row) >= row.board.max_send_backs:
        leave_to_person(row.pk, attempt, f"{row.checker} has sent it back {_send_backs(row)} times.")
        return None
    try:
        made = file_task(chain, row.board, _filing(row), allow_same=True, judged=False)
    except errors.Refusal as refusal:
        leave_to_person(row.pk, attempt, f"{row.checker} could not be asked: {refusal.sentence}")
        return None
    return AgentCheck.objects.create(task=row, attempt=attempt, check_task=made, agent=row.checker)


@engine_transaction
def carry_out(check_key: int) -> None:
    """Do what the agent's verdict says, where the result it is about still waits."""
    check = AgentCheck.objects.select_related("check_task__board").filter(check_task=check_key).first()
    if check is None or check.check_task is None or check.verdict:
        return
    row, _ = rows.lock_one(check.task_id)
    verdict, words = verdict_of(check.check_task)
    AgentCheck.objects.filter(pk=check.pk).update(verdict=verdict, words=words)
    if row.status != Status.NEEDS_CHECK or row.attempts != check.attempt or row.checker != check.agent:
        return
    chain = _verdict_chain(row, check.agent)
    if verdict == AgentCheck.Verdict.ACCEPTED:
        accept(chain, row, words)
    elif verdict == AgentCheck.Verdict.SENT_BACK:
        send_back(chain, row, words)
    else:
        leave_to_person(row.pk, check.attempt, words)


def verdict_of(check: Task) -> tuple[str, str]:
    """What an ended check says, and in which words. Finished is no yes: only a verdict that says so is."""
    if check.status != Status.COMPLETED:
        label = Status(check.status).label
        return AgentCheck.Verdict.NONE, f"Its check is {label}: {check.error[:2000]}"
    said = check.output.get("verdict", check.output.get("accepted")) if isinstance(check.output, Mapping) else None
    words = check.output.get("words") or check.output.get("feedback") if isinstance(check.output, Mapping) else ""
    words = str(words or "")[:MAX_WORDS]
    told = said if isinstance(said, bool) else str(said or "").strip().lower().replace(" ", "_").replace("-", "_")
    if told is True or told in _YES:
        return AgentCheck.Verdict.ACCEPTED, words
    if told is False or told in _NO:
        return AgentCheck.Verdict.SENT_BACK, words or "The checker gave no reason."
    return AgentCheck.Verdict.NONE, "Its check ended without a verdict."


@engine_transaction
def leave_to_person(task_key: int, attempt: int, why: str) -> None:
    """The next check is a person's: the row says so from now on, and the log why."""
    row, _ = rows.lock_one(task_key)
    if row.status != Status.NEEDS_CHECK or row.attempts != attempt:
        return
    was = row.checker
    if not rows.write(row, {"checker": "person"}):
        raise errors.Refusal("The task changed meanwhile. Try again.")
    record(
        Entry(
            "task.edited",
            service("checks", row.board.space_id),
            board_id=row.board_id,
            task_key=row.pk,
            run_id=aftermath.run_of(row),
            cause=KIND,
            from_status=row.status,
            to_status=row.status,
            data={"fields": ["checker"], "checker": {"from": was, "to": "person"}, "text": why[:2000]},
        )
    )


def _send_backs(row: Task) -> int:
    return AgentCheck.objects.filter(task=row, agent=row.checker, verdict=AgentCheck.Verdict.SENT_BACK).count()


def _filing(row: Task) -> Filing:
    return Filing(
        goal=f"Check the result of “{row.label}”.\n\nRead `input.result` against `input.goal`. Answer an object with "
        '`verdict`: "accept" or "send_back", and with `words` that say what is missing.',
        title=f"Check: {row.label}"[:200],
        input=_input(row),
        assignee=row.checker,
        checker="none",
        priority=row.priority,
    )


def _input(row: Task) -> dict[str, Any]:
    """What a person who checks is shown: the result, what was said, and the hand-in before it."""
    before = row.attempt_rows.filter(ending="handed_in", number__lt=row.attempts).order_by("-number").first()
    lines = TranscriptItem.objects.filter(task=row, attempt=row.attempts).order_by("-pk")[:SPOKEN]
    return {
        "task_id": row.public_id,
        "attempt": row.attempts,
        "title": row.label,
        "goal": row.goal,
        "input": row.input,
        "result": row.output,
        "last_result": before.output if before else None,
        "sent_back_with": row.feedback,
        "transcript": [f"{line.who}: {line.text}"[:500] for line in reversed(lines)],
    }


def _filing_chain(row: Task) -> Chain:
    """Our own service, in the partition of the row that is checked."""
    chain = service("checks", row.board.space_id)
    if row.board.partition_by == Board.PartitionBy.SESSION:
        return replace(chain, session_id=uuid.UUID(row.partition))
    if row.board.partition_by == Board.PartitionBy.USER:
        return replace(chain, user_id=int(row.partition))
    return chain


def _verdict_chain(row: Task, agent: str) -> Chain:
    """The agent through our own service: what it may do is in the service's manifest and in no worker's lend."""
    through = service("checks", row.board.space_id)
    return replace(through, hops=(Hop("agent", agent, agent), *through.hops))

"""The entry that a board keeps of a result that its recorder could not account for (spec: 03 section 3).

A commit can succeed and the call still fail on its way out. The entry says which of the two it was, stands in the event
log and, until an operator has seen it, in *Needs you*. It is in no task's transcript and changes no task.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from boards.actors import Chain
from boards.debts import owing
from boards.debts.kinds import Undeliverable, pays
from boards.event_log import Entry, record
from boards.locks import engine_transaction
from boards.models import Debt, Task
from boards.stored_text import clean_text
from boards.tasks.types import Ticket

KIND: Final = "recorder_failure"
NAME: Final = "task-board-recorder-failure"
LONGEST: Final = 2_000


class Recorder(StrEnum):
    """Which of the two recorders it was: that of results, or that of failures."""

    SUCCESS = "success"
    ERROR = "error"


class Verdict(StrEnum):
    """What is known of the write: it landed, or nobody can tell any more."""

    COMMITTED = "committed"
    UNDETERMINED = "undetermined"


_WORDS: Final = {
    Verdict.COMMITTED: "It was written all the same; only the call failed.",
    Verdict.UNDETERMINED: "Nobody can tell whether it was written, so the attempt was failed where it still stood.",
}


@engine_transaction
def note_recorder_failure(
    chain: Chain, ticket: Ticket, *, recorder: Recorder, verdict: Verdict, error: str, run_id: str
) -> None:
    """Leave the entry; the same run's failure is noted once. `run_id`: the request that worked the attempt.

    A task that is gone meanwhile has its event only: there is nothing left that an operator could open.
    """
    error = clean_text(error)  # of any code: what cannot be stored would keep the entry from being kept
    task = Task.objects.select_related("board").filter(pk=ticket.task_key).first()
    entry = {
        "entry": NAME,
        "board": task.board.slug if task else "",
        "task_id": ticket.task_id,
        "recorder": str(recorder),
        "verdict": str(verdict),
        "error": error[:LONGEST],
        "run_id": run_id,
    }
    if task is not None:
        key = f"{KIND}:{task.pk}:{run_id}:{recorder}"
        if Debt.objects.filter(unique_key=key).exists():
            return
        owing.note_undeliverable(KIND, key, task, f"{_WORDS[verdict]} {error}"[:LONGEST], entry)
    record(
        Entry(
            "board.recorder_failed",
            chain,
            board_id=ticket.board_id,
            task_key=task.pk if task else None,
            attempt=ticket.attempt,
            data=entry,
        )
    )


@pays(KIND)
def seen_only(debt: Debt) -> bool:
    raise Undeliverable("What was not recorded cannot be recorded any more. Mark it as seen.")

"""What became of a settling write that raised on its way out: the receipt on the row says. Where it cannot, or where
the write stands although the call failed, the board keeps an entry (spec: 02 section 6, 03 section 3).

It settles nothing itself; `boards.workers.settling` does, and asks here.
"""

from __future__ import annotations

import logging

from boards import tasks
from boards.models import Task
from boards.states import Verb
from boards.tasks import Settlement
from boards.tasks.progress import WriteToken
from boards.tasks.recorder_failures import Recorder, Verdict
from boards.workers.databases import AWAY
from boards.workers.runner import Run

log = logging.getLogger(__name__)


def did_land(run: Run) -> bool | None:
    """Whether a try of the settling write that raised was committed after all; None where nobody can tell."""
    row = Task.objects.filter(pk=run.ticket.task_key).first()
    token = WriteToken(run.receipt, run.ticket.incarnation_id, run.task.revision)
    return tasks.did_write_land(row, token)


def verdict_of(landed: bool | None) -> Verdict | None:
    """What the entry says; None where the write did not land, which is an ordinary error."""
    if landed is None:
        return Verdict.UNDETERMINED
    return Verdict.COMMITTED if landed else None


def keep_entry(run: Run, wish: Settlement, verdict: Verdict, error: str) -> bool:
    """Leave the board's entry; whether that was possible. Raises only what an absent database raises."""
    log.error("Task %s: its result could not be recorded (%s): %s", run.task.public_id, verdict, error)
    try:
        tasks.note_recorder_failure(
            run.chain,
            run.ticket,
            recorder=Recorder.SUCCESS if wish.verb is Verb.COMPLETE else Recorder.ERROR,
            verdict=verdict,
            error=error,
            run_id=run.request_id,
        )
    except AWAY:
        raise
    except Exception:
        log.exception("The entry about task %s could not be written either", run.task.public_id)
        return False
    return True

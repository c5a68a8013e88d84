"""The agent's word that its step is complete (spec: 05 section 2.6): stored on the run, the first one of a visit wins.

It is valid for the step it was given in, and only as long as no person has written to the turn since: a message that is
newer than the signal discards it, by its mere being there, so no race between the two can let a stale one count.
"""

from __future__ import annotations

from typing import Any

from boards import policy, tasks
from boards.actors import Chain
from boards.errors import NotFound
from boards.flows import runs
from boards.flows.situation import messages_of, signal_of
from boards.locks import engine_transaction
from boards.models import FlowRun, Visit
from boards.states import RunStatus
from boards.tasks import LostClaim, Ticket, cleaning


@engine_transaction
def complete_step(chain: Chain, claim: Ticket, summary: str, *, handoff: Any = None, blockers: Any = None) -> bool:
    """A worker says under its claim that its step is complete; the step still ends with its turn.

    False where nothing waits for it: the task is no turn of a step, or the step has been said to be complete already.
    Raises LostClaim where the claim no longer holds.
    """
    visit = Visit.objects.filter(task=claim.task_key, left_at__isnull=True).first()
    taken = visit is not None and signal(chain, visit.pk, summary, handoff=handoff, blockers=blockers)
    if not tasks.owns(claim, locks=True):  # last, since runs are locked before tasks; it takes the word back
        raise LostClaim
    return taken


@engine_transaction
def signal(chain: Chain, visit_id: int, summary: str, *, handoff: Any = None, blockers: Any = None) -> bool:
    """Store the word for one visit. False where it came too late, or was not the first."""
    policy.require(chain, "flows.signal")
    summary = cleaning.report_line(summary)
    handoff, blockers = cleaning.report_json(handoff), cleaning.report_json(blockers)
    run_id = FlowRun.objects.filter(visits=visit_id, flow__space=chain.space_id).values_list("pk", flat=True).first()
    if run_id is None:
        raise NotFound("There is no such run.")
    run, _ = runs.lock(run_id)
    visit = run.current_visit
    if visit is None or visit.pk != visit_id or run.status != RunStatus.ACTIVE or signal_of(run, visit) is not None:
        return False
    given = {"summary": summary, "handoff": handoff, "blockers": blockers}
    told = {name: value for name, value in given.items() if value is not None}
    runs.write(run, signal={"visit": visit_id, "by": chain.name, "messages": messages_of(visit)} | told)
    runs.note(run, chain, "step.signalled", visit=visit, text=summary[:2000])
    return True

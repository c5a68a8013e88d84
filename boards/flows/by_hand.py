"""Verbs by which a person repairs a run: skip a step, complete it by hand, run it again from an earlier step.

Each checks the right and then goes through the one `advance` (`boards.flows.repairs` has the handlers).
"""

from __future__ import annotations

import uuid
from typing import Any

from boards.actors import Chain
from boards.flows.advance import OLDER_VISIT, REPEATED, Trigger, advance
from boards.flows.moving import require
from boards.flows.refusals import IllegalRunMove, RunMovedOn
from boards.models import FlowRun
from boards.tasks import cleaning


def skip_step(chain: Chain, run: FlowRun, reason: str, *, visit_id: int | None = None) -> FlowRun:
    """Go on without the work of the current step, with a reason. Raises IllegalRunMove, RunMovedOn, InvalidInput."""
    words = cleaning.required_text(reason, "reason", cleaning.MAX_REASON).strip()
    return _advanced(chain, run, Trigger.SKIP, visit_id, reason=words)


def complete_by_hand(chain: Chain, run: FlowRun, output: Any, *, visit_id: int | None = None) -> FlowRun:
    """Hand in the current step's output as a person. Raises IllegalRunMove, RunMovedOn, InvalidInput."""
    checked = cleaning.clean_json(output, "output")
    return _advanced(chain, run, Trigger.BY_HAND, visit_id, output=checked)


def run_from(chain: Chain, run: FlowRun, step_key: str, *, visit_id: int | None = None) -> FlowRun:
    """Run again from a step in which the run has been. Raises IllegalRunMove, RunMovedOn."""
    return _advanced(chain, run, Trigger.RUN_FROM, visit_id, step=step_key)


def _advanced(chain: Chain, run: FlowRun, trigger: Trigger, visit_id: int | None, **facts: Any) -> FlowRun:
    require(chain, run, "flows.move")
    seen = visit_id or FlowRun.objects.values_list("current_visit", flat=True).get(pk=run.pk)
    if seen is None:
        raise IllegalRunMove("The run stands in no step yet.")
    operation = f"{trigger.value}:{uuid.uuid4()}"
    if advance(run.pk, seen, trigger, operation_id=operation, chain=chain, **facts) in (OLDER_VISIT, REPEATED):
        raise RunMovedOn
    run.refresh_from_db()
    return run

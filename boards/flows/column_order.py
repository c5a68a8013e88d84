"""The order of the cards of a column, as people put them: an ordering only, of which nothing is run (spec: 05, 2.7).

It locks the runs whose positions change, in the order of their keys, and nothing else; it owns `position` alone.
"""

from __future__ import annotations

from typing import Final

from django.db.models import Case, QuerySet, Value, When

from boards.actors import Chain
from boards.flows import limits, runs
from boards.locks import Rank, engine_transaction, taking
from boards.models import FlowRun
from boards.states import RunStatus

# The order in which a column is shown, and in which another step pulls from it.
IN_STEP: Final = ("position", "-priority", "stands_since", "created_at", "pk")
QUEUED: Final = ("position", "-priority", "queued_at", "created_at", "pk")


@engine_transaction
def put_before(chain: Chain, run_id: int, before: int) -> None:
    """Put the card right before another of its column, or last (0, and where that one is no longer there).

    A card that is over stands by its time and stays where it is.
    """
    run = FlowRun.objects.get(pk=run_id)
    column = _column(run)
    if column is None:
        return
    changed = limits.put_before(list(column.values_list("pk", "position")), run_id, before)
    taking(Rank.FLOW_RUN)
    rows = FlowRun.objects.filter(pk__in=changed, step_key=run.step_key, queued_step=run.queued_step)
    still = list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    if run_id not in still:
        return  # it moved on meanwhile, and falls where it falls
    whens = [When(pk=key, then=Value(position)) for key, position in changed.items()]
    FlowRun.objects.filter(pk__in=still).update(position=Case(*whens))
    locked, _ = runs.lock(run_id)
    runs.note(locked, chain, "run.ordered", step=run.queued_step or run.step_key)


def _column(run: FlowRun) -> QuerySet[FlowRun] | None:
    """The cards among which the run stands, in their order."""
    cards = FlowRun.objects.filter(flow=run.flow_id, archived_at=None)
    if run.queued_step:
        return cards.filter(queued_step=run.queued_step).order_by(*QUEUED)
    if run.status not in (RunStatus.ACTIVE, RunStatus.FAILED) or not run.step_key:
        return None
    return cards.filter(step_key=run.step_key, status__in=(RunStatus.ACTIVE, RunStatus.FAILED)).order_by(*IN_STEP)

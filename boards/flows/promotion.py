"""Lets waiting runs into steps that have a free place (spec: 05 section 5).

It is the debt `run_promote`, since it locks another run than the one that gave up the place. It chooses without a lock,
locks the run that it chose, then the step's slot, and asks again; one run for each transaction, until nobody waits or
no place is left.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from boards.actors import service
from boards.debts.kinds import pays
from boards.each import each_by_itself
from boards.errors import NotFound
from boards.flows import afterwards, approving, column_order, failing, runs, wip
from boards.flows.entering import Arrival, go
from boards.flows.limits import Limits, is_full
from boards.flows.templating import TemplatingError
from boards.locks import engine_transaction
from boards.models import Debt, FlowRun, FlowStep, Hold, StepChange
from boards.states import HoldState, Phase, RunStatus, Status

# A card of these is done in its step once it waits there; of the others, once the stay has handed something in.
PULLED_KINDS: Final = ("column", "agent", "task", "approval", "input", "notify")


class Tried(StrEnum):
    """What came of one try."""

    PROMOTED = "promoted"
    AGAIN = "again"  # the run that was chosen no longer waits
    SETTLED = "settled"  # no place is left, or nobody waits


def promote_one(flow_id: int, key: str, *, but: int | None = None) -> Tried:
    """Let the first that waits for the step in, where there is a place. Inside an engine transaction."""
    limits = wip.newest_limits(flow_id)
    limit = limits.of(key)
    if limit and is_full(limit, wip.admitted(flow_id, key).count()):
        return Tried.SETTLED  # whoever leaves later owes a try of their own
    chosen = _first(flow_id, key, limits, but)
    if chosen is None:
        return Tried.SETTLED
    try:
        run, flow = runs.lock(chosen)
    except NotFound:
        return Tried.AGAIN
    if not wip.has_place(flow_id, limits, key):
        return Tried.SETTLED
    waits = _queued(flow_id, key) if run.queued_step else _in_feeder(flow_id, key, limits, but)
    step = flow.step(key)
    if step is None or not waits.filter(pk=run.pk).exists():
        return Tried.AGAIN
    chain, change = service("flows", run.flow.space_id), StepChange.Trigger.QUEUE_PROMOTION
    arrival = Arrival(
        step, chain, run.flow.name, change, runs_entry=run.queued_entry, cause=change.value, has_place=True
    )
    with afterwards.collecting():
        try:
            go(run, flow, arrival)
        except TemplatingError as error:  # of an exit event: the card stays, and asks for a person
            assert run.current_visit is not None
            failing.fail(run, flow, run.current_visit, str(error), chain, change.value)
            return Tried.AGAIN
    return Tried.PROMOTED


@pays(wip.PROMOTE)
def pay_run_promote(debt: Debt) -> bool:
    """Settled once nobody can be let in; before, it is called again for the next."""
    told = debt.data
    return promote_one(int(told["flow"]), str(told["step"]), but=told.get("but")) is Tried.SETTLED


def promote_waiting(limit: int) -> int:
    """At start-up, and whenever a sweeper passes: let in whoever waits for a step that has a place; answers how many.

    Nobody should: each occasion owes a debt. This finds what a changed row or a lost debt left behind.
    """
    return each_by_itself(_open_steps(limit), lambda step: _fill(*step))


def _fill(flow_id: int, key: str) -> int:
    promoted = 0
    while (tried := engine_transaction(promote_one)(flow_id, key)) is not Tried.SETTLED:
        promoted += tried is Tried.PROMOTED
    return promoted


def _first(flow_id: int, key: str, limits: Limits, but: int | None) -> int | None:
    """The run that is next: those queued in the step before those in its feeder."""
    queued = _queued(flow_id, key).order_by(*column_order.QUEUED)
    found = queued.values_list("pk", flat=True).first()
    if found is None and limits.feeder(key):
        fed = _in_feeder(flow_id, key, limits, but)
        found = fed.order_by(*column_order.IN_STEP).values_list("pk", flat=True).first()
    return found


def _queued(flow_id: int, key: str) -> QuerySet[FlowRun]:
    return FlowRun.objects.filter(flow=flow_id, queued_step=key, archived_at=None)


def _in_feeder(flow_id: int, key: str, limits: Limits, but: int | None) -> QuerySet[FlowRun]:
    """Runs whose stay in the feeder is over but for the move: nothing of it works, asks, was refused, stopped or lacks
    a signal.

    No gate is passed by being pulled through it.
    """
    feeder = limits.feeder(key)
    steps = FlowStep.objects.filter(version=OuterRef("version"))
    asks = Hold.objects.filter(
        Q(visit=OuterRef("current_visit")) | Q(task=OuterRef("current_visit__task")),
        # Open, or a person was asked before the move and has not said yes: a yes would have moved it.
        Q(state=HoldState.OPEN) | Q(dedup_key__startswith=approving.KEY),
    )
    # An answer that settles, or an ending that is about to be looked at, says where the card goes.
    moves = Debt.objects.filter(run=OuterRef("pk"), kind="flow_advance", state=Debt.State.OWED)
    is_done = Q(current_visit__task=None) | Q(current_visit__task__status=Status.COMPLETED)
    runs_there = FlowRun.objects.filter(
        Exists(steps.filter(key=key)),
        Exists(steps.filter(key=feeder, kind__in=PULLED_KINDS)) | Q(current_visit__output__isnull=False),
        is_done,
        flow=flow_id,
        step_key=feeder,
        status=RunStatus.ACTIVE,
        archived_at=None,
        current_visit__phase=Phase.WAITING,
        current_visit__error="",
    ).exclude(Exists(asks) | Exists(moves))
    signalled = Q(signal__isnull=False)  # a move clears it, so it is of this stay
    gated = Exists(steps.filter(key=feeder, settings__auto_advance_requires_signal=True))
    return runs_there.filter(signalled | ~gated | Q(current_visit__task=None)).exclude(pk=but or 0)


def _open_steps(limit: int) -> list[tuple[int, str]]:
    """Flow and step of those that have a place, as the newest version says, and somebody who may wait for it."""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN_STEPS, [limit])
        return [(flow_id, key) for flow_id, key in cursor.fetchall()]


_OPEN_STEPS: Final = """
with newest as (
  select distinct on (flow_id) flow_id, id from boards_flowversion order by flow_id, number desc
), step as (
  select n.flow_id, s.key, coalesce((s.settings->>'wip_limit')::int, 0) wip, s.settings->>'pull_from' feeder
    from newest n join boards_flowstep s on s.version_id = n.id
), wanted as (
  select distinct flow_id, queued_step key from boards_flowrun where queued_step <> '' and archived_at is null
  union
  select s.flow_id, s.key from step s
   where s.wip > 0 and s.feeder is not null
     and exists (select from boards_flowrun r where r.flow_id = s.flow_id and r.step_key = s.feeder
                   and r.status = 'active' and r.archived_at is null)
)
select w.flow_id, w.key from wanted w left join step s on s.flow_id = w.flow_id and s.key = w.key
 where coalesce(s.wip, 0) = 0
    or (select count(*) from boards_flowrun r where r.flow_id = w.flow_id and r.step_key = w.key
          and r.status in ('active', 'failed') and r.archived_at is null) < s.wip
 order by 1, 2 limit %s
"""

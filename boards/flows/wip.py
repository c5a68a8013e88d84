"""The places of steps: who takes one, who waits for one, and what is owed when one may be free (spec: 05 section 5).

Works under the lock of a run, inside an engine transaction. A place is taken by standing in the step: nothing is
counted up or down, so a count can never be wrong; whoever decides on a place holds the step's slot row meanwhile.
"""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet
from django.db.models.functions import Now

from boards.actors import Chain
from boards.debts import owing
from boards.flows import afterwards, definition, runs
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.flows.limits import Limits, Seat, is_full, limits_of, seat_of_new
from boards.flows.refusals import StepFull
from boards.locks import Rank, taking
from boards.models import FlowRun, FlowVersion, StepSlot
from boards.states import RunStatus

PROMOTE: Final = "run_promote"
TAKES_A_PLACE: Final = (RunStatus.ACTIVE, RunStatus.FAILED)  # a failed run keeps its place, and goes on from there


def newest_limits(flow_id: int) -> Limits:
    """The limits that hold now for the runs of every version. One query; two for a version that is new here."""
    newest = FlowVersion.objects.filter(flow=flow_id).order_by("-number")
    version = newest.only("created_at").first()
    return limits_of(definition.steps_of(version)) if version else Limits()


def admitted(flow_id: int, key: str) -> QuerySet[FlowRun]:
    """The runs that take a place of the step."""
    return FlowRun.objects.filter(flow=flow_id, step_key=key, status__in=TAKES_A_PLACE, archived_at=None)


def has_place(flow_id: int, limits: Limits, key: str) -> bool:
    """Whether one more run may enter; until the transaction ends nobody else is admitted to a step with a limit."""
    limit = limits.of(key)
    if not limit:
        return True
    lock_slots(flow_id, limits, key)
    return not is_full(limit, admitted(flow_id, key).count())


def seat_for_new(run: FlowRun, flow: FlowDefinition, step: StepDefinition) -> tuple[StepDefinition, bool]:
    """Where a new run goes: the step and whether it may enter, or has to queue there.

    Raises StepFull where neither the step nor the one that it pulls from has a place.
    """
    limits = newest_limits(run.flow_id)
    feeder = flow.step(limits.feeder(step.key))
    if not limits.of(step.key):
        return step, True
    lock_slots(run.flow_id, limits, step.key, feeder.key if feeder else "")
    seat = seat_of_new(
        is_full=_full(run.flow_id, limits, step.key),
        feeder=feeder.key if feeder else "",
        feeder_is_full=feeder is not None and _full(run.flow_id, limits, feeder.key),
    )
    if seat is Seat.NONE:
        assert feeder is not None
        words = f"{step.name} is full, and so is {feeder.name}, where it would wait."
        raise StepFull(f"{words} Finish or archive a run there, then start this one again.", step=step.key)
    if seat is Seat.FEEDER:
        assert feeder is not None
        return feeder, True
    return step, seat is Seat.STEP


def queue(run: FlowRun, key: str, chain: Chain, *, entry: bool = True, **fields: Any) -> None:
    """The run waits for a place of the step; it stands in none meanwhile. `entry`: its entry events are run then."""
    runs.write(run, current_visit=None, signal=None, queued_step=key, queued_at=Now(), queued_entry=entry, **fields)
    runs.note(run, chain, "run.queued", step=key)


def lock_slots(flow_id: int, limits: Limits, *keys: str) -> None:
    """Hold the slot rows of these steps, in the order of their positions."""
    taking(Rank.STEP_SLOTS)
    for key in limits.in_order(keys):
        slot = StepSlot.objects.filter(flow=flow_id, step_key=key)
        if not slot.select_for_update().exists():
            StepSlot.objects.bulk_create([StepSlot(flow_id=flow_id, step_key=key)], ignore_conflicts=True)
            slot.select_for_update().get()


def owe_left(run: FlowRun, key: str, limits: Limits | None = None, *, but: int | None = None) -> None:
    """A place of the step was given up: whoever waits for it is let in. `but`: a run that is not to be pulled back."""
    known = newest_limits(run.flow_id) if limits is None else limits
    if known.of(key):
        _owe(run, key, f"{run.pk}.{run.revision}:left", but)


def owe_waits(run: FlowRun, limits: Limits | None = None) -> None:
    """The run began to wait: queued, or standing where another step pulls from. A place may have come free meanwhile,
    and whoever gave it up could not see this run yet.
    """
    known = newest_limits(run.flow_id) if limits is None else limits
    waits_for = [run.queued_step] if run.queued_step else known.fed_by(run.step_key)
    for key in waits_for:
        _owe(run, key, f"{run.pk}.{run.revision}:waits", None)


def owe_limits(flow_id: int, version: int) -> None:
    """A new version may have raised limits, or taken them away: everybody who waits is asked again."""
    limits = newest_limits(flow_id)
    queued = FlowRun.objects.filter(flow=flow_id, archived_at=None).exclude(queued_step="")
    keys = {*queued.values_list("queued_step", flat=True).distinct(), *(key for key in limits.places if limits.of(key))}
    for key in limits.in_order(keys):
        owing.owe(PROMOTE, f"{PROMOTE}:{flow_id}:{key}:v{version}", data={"flow": flow_id, "step": key})


def _owe(run: FlowRun, key: str, nonce: str, but: int | None) -> None:
    # Each occasion owes its own: one that found an older debt in payment would be missed.
    told = {"flow": run.flow_id, "step": key} | ({"but": but} if but else {})
    afterwards.later(PROMOTE, f"{PROMOTE}:{key}:{nonce}", run, **told)


def _full(flow_id: int, limits: Limits, key: str) -> bool:
    limit = limits.of(key)
    return bool(limit) and is_full(limit, admitted(flow_id, key).count())

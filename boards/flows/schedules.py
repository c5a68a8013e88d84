"""Schedules: who sets them up, and starting what is due (spec: 05 section 7).

A firing is one transaction: the guarded update of `next_at`, which names the due moment that was seen, and the start.
So any number of sweepers fire a due moment once, and one that was down for hours fires once, not for each that it
missed. The row of a schedule is locked before everything else, and by nobody who holds another lock.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db import DatabaseError
from django.db.models.functions import Now

from boards import policy
from boards.actors import Chain, service
from boards.errors import InvalidInput, NotFound, Refusal
from boards.event_log import Entry, record
from boards.flows import clock, cron, definition, templating
from boards.flows.authors import acting_for
from boards.flows.cron import CronError
from boards.flows.refusals import StepFull
from boards.flows.starting import MAX_NAME, checked_inputs, start
from boards.flows.templating import Known, TemplatingError
from boards.locks import engine_transaction
from boards.models import Flow, FlowVersion, Schedule

log = logging.getLogger(__name__)

NAME_NAMES: Final = frozenset({"date", "time", "flow"})
_MAX_ERROR: Final = 1_000


@dataclass(frozen=True, slots=True)
class ScheduleFields:
    """What a person says of a schedule. `name_template` knows `date`, `time` (of the due moment) and `flow`."""

    expression: str
    zone: str = "UTC"
    inputs: Mapping[str, Any] = field(default_factory=dict)
    name_template: str = ""


@engine_transaction
def add_schedule(chain: Chain, flow: Flow, told: ScheduleFields) -> Schedule:
    """A new schedule, which acts for whoever adds it. Raises InvalidInput with a sentence, Forbidden."""
    _require(chain, flow)
    made = Schedule.objects.create(flow=flow, author_id=chain.user_id, **_checked(flow, told))
    _note(chain, "schedule.added", made)
    return made


@engine_transaction
def change_schedule(chain: Chain, schedule: Schedule, told: ScheduleFields) -> None:
    """Change what it says; from now on it acts for whoever changed it. A paused one stays paused."""
    _require(chain, schedule.flow)
    fields = _checked(schedule.flow, told) | {"author_id": chain.user_id, "error": ""}
    if not Schedule.objects.filter(pk=schedule.pk, enabled=True).update(**fields):
        Schedule.objects.filter(pk=schedule.pk, enabled=False).update(**fields | {"next_at": None})
    _note(chain, "schedule.changed", schedule)


@engine_transaction
def pause_schedule(chain: Chain, schedule: Schedule) -> None:
    """Start nothing until it is resumed; pausing twice is once."""
    _require(chain, schedule.flow)
    if Schedule.objects.filter(pk=schedule.pk, enabled=True).update(enabled=False, next_at=None):
        _note(chain, "schedule.paused", schedule)


@engine_transaction
def resume_schedule(chain: Chain, schedule: Schedule) -> None:
    """Go on with the next moment that is due; what was missed meanwhile is not made up for."""
    _require(chain, schedule.flow)
    following = _next(schedule.expression, schedule.zone, clock.now())
    fields = {"enabled": True, "next_at": following, "error": "", "author_id": chain.user_id}
    if Schedule.objects.filter(pk=schedule.pk, enabled=False).update(**fields):
        _note(chain, "schedule.resumed", schedule)


@engine_transaction
def remove_schedule(chain: Chain, schedule: Schedule) -> None:
    """The runs that it started stay."""
    _require(chain, schedule.flow)
    _note(chain, "schedule.removed", schedule)
    Schedule.objects.filter(pk=schedule.pk).delete()


def start_due(limit: int) -> int:
    """Start what is due, the longest due first; answers how many runs. One that cannot be started stops no other."""
    due = Schedule.objects.filter(enabled=True, next_at__lte=Now()).order_by("next_at", "pk")
    started = 0
    for key, due_at in list(due.values_list("pk", "next_at")[:limit]):
        assert due_at is not None
        try:
            started += fire(key, due_at)
        except DatabaseError:
            raise
        except Exception:
            log.exception("The schedule %s could not be started.", key)
    return started


def fire(key: int, due_at: datetime) -> bool:
    """Start the run of one due moment, once; answers whether this call did.

    A step that is full passes this moment over. Any other refusal stops the schedule, which then says why.
    """
    try:
        return _fire(key, due_at)
    except StepFull as refusal:
        _pass_over(key, due_at, str(refusal))
    except (Refusal, CronError, TemplatingError) as refusal:
        _stop(key, due_at, str(refusal))
    return False


@engine_transaction
def _fire(key: int, due_at: datetime) -> bool:
    row = _seen(key, due_at)
    if row is None:
        return False
    following = cron.next_after(row.expression, row.zone, max(clock.now(), due_at))
    if not _due(key, due_at).update(next_at=following, last_at=Now(), error=""):
        return False
    chain = acting_for(row.author_id, row.flow, "flows.start", "schedule")
    idempotency_key = f"schedule:{key}:{due_at.isoformat()}"
    run = start(chain, row.flow, row.inputs, _name(row, due_at), idempotency_key=idempotency_key)
    Schedule.objects.filter(pk=key).update(last_run=run)
    told = {"schedule": key, "due": due_at.isoformat(), "zone": row.zone}
    record(Entry("schedule.fired", chain, board_id=row.flow.board_id, run_id=run.pk, data=told))
    return True


@engine_transaction
def _pass_over(key: int, due_at: datetime, why: str) -> None:
    row = _seen(key, due_at)
    if row is None:
        return
    following = cron.next_after(row.expression, row.zone, max(clock.now(), due_at))
    if _due(key, due_at).update(next_at=following, error=why[:_MAX_ERROR]):
        _note(service("flows", row.flow.space_id), "schedule.passed_over", row, due=due_at.isoformat(), why=why)


@engine_transaction
def _stop(key: int, due_at: datetime, why: str) -> None:
    row = _seen(key, due_at)
    if row is not None and _due(key, due_at).update(enabled=False, next_at=None, error=why[:_MAX_ERROR]):
        _note(service("flows", row.flow.space_id), "schedule.stopped", row, due=due_at.isoformat(), why=why)


def _seen(key: int, due_at: datetime) -> Schedule | None:
    found = Schedule.objects.filter(pk=key, enabled=True, next_at=due_at)
    return found.select_related("flow__space", "flow__board").first()


def _due(key: int, due_at: datetime) -> Any:
    """The row, where it is still due at the moment that was seen."""
    return Schedule.objects.filter(pk=key, enabled=True, next_at=due_at, next_at__lte=Now())


def _name(row: Schedule, due_at: datetime) -> str:
    here = due_at.astimezone(cron.zone_of(row.zone))
    known = {"date": f"{here:%Y-%m-%d}", "time": f"{here:%H:%M}", "flow": row.flow.name}
    return " ".join(templating.render(row.name_template, known).split())[:MAX_NAME]


def _checked(flow: Flow, told: ScheduleFields) -> dict[str, Any]:
    expression, zone = " ".join(told.expression.split()), told.zone.strip()
    try:
        cron.zone_of(zone)
    except CronError as error:
        raise InvalidInput(str(error), field="zone") from None
    name = told.name_template.strip()
    if len(name) > MAX_NAME:
        raise InvalidInput(f"The name has at most {MAX_NAME} characters.", field="name_template")
    for fault in templating.template_faults(name, Known(NAME_NAMES, frozenset())):
        raise InvalidInput(f"The name: {fault}", field="name_template")
    return {
        "expression": expression,
        "zone": zone,
        "inputs": checked_inputs(schema_of(flow), told.inputs),
        "name_template": name,
        "next_at": _next(expression, zone, clock.now()),
    }


def _next(expression: str, zone: str, moment: datetime) -> datetime:
    try:
        return cron.next_after(expression, zone, moment)
    except CronError as error:
        raise InvalidInput(str(error), field="expression") from None


def schema_of(flow: Flow) -> Mapping[str, Any]:
    """The schema of the inputs of the flow's newest version. Raises NotFound."""
    version = FlowVersion.objects.filter(flow=flow).select_related("flow").order_by("-number").first()
    if version is None:
        raise NotFound(f"The flow {flow.name} has no version to run yet.")
    return definition.load(version).inputs


def _require(chain: Chain, flow: Flow) -> None:
    if flow.space_id != chain.space_id:
        raise NotFound("There is no such flow.")
    policy.require(chain, "flows.edit", flow.space_id)


def _note(chain: Chain, kind: str, row: Schedule, **told: Any) -> None:
    record(Entry(kind, chain, board_id=row.flow.board_id, data={"schedule": row.pk, "flow": row.flow.key} | told))

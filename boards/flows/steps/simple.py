"""Steps that nobody works: `wait` for a moment or an event, `choice` of a way, `notify` somebody (spec: 05 section 1).

Each goes on by an advance of its own, so that a row of them is a row of small transactions and a crash between any two
is finished on resume.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from boards.actors import Chain
from boards.errors import InvalidInput
from boards.flows import afterwards, data, decisions, events, failing, runs, side_effects, templating, works
from boards.flows.decisions import How, Turn
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.flows.ending import end_turn
from boards.flows.outcomes import ENDED_RUN, OVERTAKEN
from boards.flows.situation import Situation, matcher, open_question
from boards.flows.steps.registry import starts
from boards.flows.templating import TemplatingError
from boards.models import FlowRun, FlowStep, KeptEvent, StepChange, Visit
from boards.states import Phase, RunStatus
from boards.stored_text import clean_text
from boards.tasks import cleaning

PASSED: Final = "passed"  # the trigger by which a choice or a notice goes on
WAIT_OVER: Final = "wait_over"  # the trigger by which a wait goes on
MAX_IN_A_ROW: Final = 100
INSTANT: Final = frozenset({"choice", "notify"})


@starts("notify")
def start_notify(
    run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, chain: Chain
) -> dict[str, Any]:
    side_effects.tell(run, step.to, templating.render(step.prompt, data.values(run, flow)))
    return _go_on(run, visit)


@starts("choice")
def start_choice(
    run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, chain: Chain
) -> dict[str, Any]:
    return _go_on(run, visit)


def _go_on(run: FlowRun, visit: Visit) -> dict[str, Any]:
    afterwards.advance_later(run, visit, PASSED, PASSED)
    return {"phase": Phase.WORKING}


@starts("wait")
def start_wait(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, chain: Chain) -> dict[str, Any]:
    """Wait by the database's clock, and for an event; a moment that is past already, and an event that is kept already,
    go on at once.
    """
    begun: dict[str, Any] = {"phase": Phase.WAITING}
    known = data.values(run, flow)
    if step.event and events.wait_for(run, visit, templating.render(step.event, known)):
        afterwards.advance_later(run, visit, events.EVENT, f"{events.EVENT}:entry")
    if step.duration_ms is not None:
        begun["due_at"] = works.due_in(step.duration_ms)
    elif step.until.strip():
        begun["due_at"] = _moment(templating.render(step.until, known).strip(), step.name)
        afterwards.advance_later(run, visit, WAIT_OVER, f"{WAIT_OVER}:entry")
    return begun


def _moment(told: str, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(told)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        words = f"The step {name} waits until “{clean_text(told[:100])}”, which is no moment with an offset"
        raise InvalidInput(f"{words}. Write it as 2026-11-30T09:00:00+01:00.")
    return cleaning.checked_moment(moment, "until") or moment


def passed(at: Situation) -> str:
    """A choice is made, or a notice was given: go on."""
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    if at.step is None or at.step.kind not in INSTANT or at.visit.phase != Phase.WORKING:
        return OVERTAKEN
    if _goes_round(at):
        words = f"The run went through {MAX_IN_A_ROW} choices and notices in a row: it goes round. Change the flow."
        failing.fail(at.run, at.flow, at.visit, words, at.chain, at.cause)
        return "failed"
    try:
        way = decisions.chosen_way(at.step, at.flow, matcher(at))
    except TemplatingError as error:
        failing.fail(at.run, at.flow, at.visit, str(error), at.chain, at.cause)
        return "failed"
    return end_turn(at, _turn(at), at.run.flow.name, StepChange.Trigger.ON_TURN_COMPLETE, target=way)


def _goes_round(at: Situation) -> bool:
    """Whether the run did nothing but choose and tell for so long that it can only go round."""
    if at.visit.number <= MAX_IN_A_ROW:
        return False
    instant = {step.key for step in at.flow.steps if step.kind in INSTANT}
    lately = at.run.visits.order_by("-number").values_list("step_key", flat=True)[:MAX_IN_A_ROW]
    return all(key in instant for key in lately)


def _turn(at: Situation) -> Turn:
    return Turn(How.PASSED, open_question(at))


def wait_over(at: Situation) -> str:
    """The moment that a `wait` waits for has come, by the database's clock; an event that came before it was first."""
    if refusal := _waits_no_more(at):
        return refusal
    if not Visit.objects.filter(pk=at.visit.pk, due_at__lte=Now()).exists():
        return "not_due"
    assert at.visit.due_at is not None
    event = events.take(at.visit)
    return _end_by_event(at, event) if event else _end_wait(at, {"until": at.visit.due_at.isoformat()})


def event_came(at: Situation) -> str:
    """An event with the key that a `wait` waits for is kept; the first run that gets here takes it."""
    if refusal := _waits_no_more(at):
        return refusal
    event = events.take(at.visit)
    return _end_by_event(at, event) if event else "no_event"


def _end_by_event(at: Situation, event: KeptEvent) -> str:
    runs.note(at.run, at.chain, "step.event", visit=at.visit, key=event.key)
    return _end_wait(at, event.payload)


def _waits_no_more(at: Situation) -> str:
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    waits = at.step is not None and at.step.kind == "wait" and at.visit.phase == Phase.WAITING
    return "" if waits and at.visit.output is None else OVERTAKEN


def _end_wait(at: Situation, output: Any) -> str:
    runs.write_visit(at.visit, output=output)
    return end_turn(at, _turn(at), at.run.flow.name, StepChange.Trigger.ON_TURN_COMPLETE)


def due_waits(limit: int) -> list[tuple[int, int, datetime, int]]:
    """(run, visit, due time, space) of waits whose moment has come and that nobody has moved on; oldest due first."""
    step = FlowStep.objects.filter(version=OuterRef("run__version"), key=OuterRef("step_key"), kind="wait")
    due = Visit.objects.filter(Exists(step), left_at__isnull=True, due_at__lte=Now(), output__isnull=True)
    waiting = due.filter(phase=Phase.WAITING, run__status=RunStatus.ACTIVE, run__archived_at=None)
    found = waiting.order_by("due_at", "pk").values_list("run", "pk", "due_at", "run__flow__space")[:limit]
    return [(run, visit, due_at, space) for run, visit, due_at, space in found if due_at is not None]


def wait_operation(visit_id: int, due_at: datetime) -> str:
    """Names the firing of one due time: a wait whose moment was put off fires again, and each once."""
    return f"{WAIT_OVER}:{visit_id}:{due_at.isoformat()}"

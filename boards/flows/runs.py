"""The rows of one run, under its lock: every write of the flow engine to a run or a visit goes through here.

Each function expects the run that `lock` answered, inside the engine transaction that locked it.
"""

from __future__ import annotations

from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Now

from boards.actors import Chain, Hop
from boards.errors import NotFound
from boards.event_log import Entry, record_all
from boards.flows import definition
from boards.flows.definition import FlowDefinition
from boards.locks import Rank, taking
from boards.models import Branch, FlowRun, Task, TranscriptItem, Visit
from boards.states import Phase, RunStatus

FLOWS: Final = Hop("service", "flows", "flows")


def lock(run_id: int) -> tuple[FlowRun, FlowDefinition]:
    """The run's row, locked until the transaction ends, and its flow. Raises NotFound."""
    taking(Rank.FLOW_RUN)
    found = (
        FlowRun.objects.select_for_update(of=("self",), no_key=True)
        .select_related("flow__board", "flow__space", "version", "current_visit")
        .filter(pk=run_id)
        .first()
    )
    if found is None:
        raise NotFound("There is no such run.")
    if found.current_visit is None and found.current_visit_id is not None:
        # It moved while this waited for its lock: the row is the new one, what was joined to it is of the time before.
        found.current_visit = Visit.objects.get(pk=found.current_visit_id)
    found.version.flow = found.flow
    return found, definition.load(found.version)


def chain_of(run: FlowRun) -> Chain:
    """Who a step's work is filed for: whoever started the run, then the Flows service."""
    starter = Hop("service", run.started_by_name or "flows", "flows")
    if run.started_by_id is not None:
        starter = Hop("person", run.started_by_name, str(run.started_by_id))
    return flows_for(Chain(run.flow.space_id, (starter,), run.session_id, run.started_by_id))


def flows_for(chain: Chain) -> Chain:
    """The Flows service, acting for whoever asked."""
    return chain if chain.acting == FLOWS else chain.then(FLOWS)


def write(run: FlowRun, **fields: Any) -> None:
    """The one guarded update of a run: it names the status that was seen, and sets named fields only."""
    fields |= _where_it_stands(run, fields)
    seen = FlowRun.objects.filter(pk=run.pk, status=run.status, revision=run.revision)
    landed = seen.update(**fields, revision=F("revision") + 1)
    if landed != 1:  # the row is locked, so only code that skipped `lock` can have changed it
        raise AssertionError(f"Run {run.pk} was written outside its lock.")
    run.revision += 1
    _bring_up_to_date(run, fields)


def _where_it_stands(run: FlowRun, fields: dict[str, Any]) -> dict[str, Any]:
    """What follows for its card from a change of its step or its status: in which column it stands, and since when."""
    told: dict[str, Any] = {}
    if "current_visit" in fields:
        visit = fields["current_visit"]
        told = {"step_key": visit.step_key if visit else "", "position": 0}
    elif fields.get("status") == RunStatus.CANCELLED and run.queued_step:
        told = {"step_key": run.queued_step, "queued_step": "", "queued_at": None, "queued_entry": True}
    return told | {"stands_since": Now()} if told or "status" in fields else {}


def write_visit(visit: Visit, **fields: Any) -> None:
    """Set named fields of a visit that was not left yet."""
    landed = Visit.objects.filter(pk=visit.pk, left_at__isnull=True).update(**fields)
    if landed != 1:
        raise AssertionError(f"Visit {visit.pk} was left already.")
    _bring_up_to_date(visit, fields)


def write_branch(branch: Branch, **fields: Any) -> None:
    """Set named fields of one of several works of a visit, where it stands as it was read under the run's lock."""
    landed = Branch.objects.filter(pk=branch.pk, outcome=branch.outcome).update(**fields)
    if landed != 1:
        raise AssertionError(f"Branch {branch.pk} was written outside its run's lock.")
    _bring_up_to_date(branch, fields)


def _bring_up_to_date(row: FlowRun | Visit | Branch, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if not hasattr(value, "resolve_expression"):
            setattr(row, name, value)


def note(run: FlowRun, chain: Chain, *kinds: str, visit: Visit | None = None, cause: str = "", **data: Any) -> None:
    """Events of a run, in the order given."""
    told = {"step": visit.step_key, "visit": visit.number} if visit else {}
    record_all(
        Entry(
            kind, chain, board_id=run.flow.board_id, run_id=run.pk, cause=cause, to_status=run.status, data=told | data
        )
        for kind in kinds
    )


def task_of(visit: Visit) -> Task | None:
    """The task of the visit's turn as it is now, where it has one."""
    return None if visit.task_id is None else Task.objects.filter(pk=visit.task_id).first()


def reopen(run: FlowRun, chain: Chain) -> None:
    """A run that had ended goes on: a person, or the step's own task, made it move again."""
    if run.status != RunStatus.ACTIVE:
        was = run.status
        write(run, status=RunStatus.ACTIVE, completed_at=None, error="")
        note(run, chain, "run.reopened", was=was)


def wait(run: FlowRun, visit: Visit, phase: Phase, chain: Chain, why: str) -> None:
    """The run stays in its step until a person acts."""
    write_visit(visit, phase=phase)
    write(run)
    note(run, chain, f"step.{phase.value}", visit=visit, why=why)


def say(run: FlowRun, text: str, task: Task | None = None) -> None:
    """One status line in the run's transcript, and in its task's."""
    attempt = task.attempts if task else 0
    TranscriptItem.objects.create(
        session_id=run.session_id, task=task, attempt=attempt, kind=TranscriptItem.Kind.STATUS, text=text
    )

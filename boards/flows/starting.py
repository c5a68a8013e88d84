"""Starts runs: inputs judged by the schema, a session of the run's own, the first step entered (spec: 05 section 7)."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from django.db.models import F
from jsonschema.validators import Draft202012Validator

from boards import policy
from boards.actors import Chain
from boards.debts.kinds import pays
from boards.errors import InvalidInput, NotFound
from boards.flows import afterwards, by_keys, definition, runs, wip
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.flows.entering import Arrival, go
from boards.locks import Rank, engine_transaction, taking
from boards.models import Board, Debt, Flow, FlowRun, FlowVersion, IdempotencyKey, Session, StepChange, Visit
from boards.states import RunStatus
from boards.tasks import cleaning, idempotency

MAX_NAME: Final = 200


@engine_transaction
def start(
    chain: Chain,
    flow: Flow,
    inputs: Mapping[str, Any],
    name: str = "",
    *,
    step: str = "",
    priority: int = 0,
    idempotency_key: str = "",
) -> FlowRun:
    """Start a run of the flow's newest version, in `step` or in its first; the same key again answers the first run.

    Where the step is full the run queues there, or waits in the step that it pulls from; `priority`: higher ones are
    let in first. Raises InvalidInput naming each input that does not fit, NotFound for a flow of another space or
    without a version, StepFull where there is no place to wait either.
    """
    if flow.space_id != chain.space_id or not chain.sees_board(flow.board_id):
        raise NotFound("There is no such flow.")
    policy.require(chain, "flows.start", flow.space_id)
    version = FlowVersion.objects.filter(flow=flow).select_related("flow").order_by("-number").first()
    if version is None:
        raise NotFound(f"The flow {flow.name} has no version to run yet.")
    told = definition.load(version)
    checked = checked_inputs(told.inputs, inputs)
    first = first_step(told, step)
    if first.key != told.start_step.key:
        by_keys.require_way(chain, told, flow)
    key = cleaning.checked_text(idempotency_key, "idempotency_key", cleaning.MAX_KEY)
    stored = _idempotency_row(chain, flow, key, [checked, name, *([step] if step else [])])
    if stored is not None and stored.result:
        return FlowRun.objects.get(pk=stored.result["run"])
    run = _insert(chain, flow, version, checked, _checked_name(name), priority=priority)
    if stored is not None:
        IdempotencyKey.objects.filter(pk=stored.pk).update(result={"run": run.pk})
    return _enter_first(chain, run, first.key)


def first_step(flow: FlowDefinition, key: str = "") -> StepDefinition:
    """The step in which a run begins: the one that was asked for, or the first. Raises InvalidInput with the reason."""
    step = flow.step(key) if key else flow.start_step
    if step is None:
        raise InvalidInput("The flow has no such step.", field="step")
    if reason := not_first(flow, step):
        raise InvalidInput(reason, field="step")
    return step


def not_first(flow: FlowDefinition, step: StepDefinition) -> str:
    """Why a run may not be started there, or ''."""
    if step.key == flow.start_step.key:
        return ""
    if flow.is_terminal(step):
        return f"A run that begins in {step.name} would be over at once."
    return "" if step.allow_manual_move else f"A card comes to {step.name} from a neighbouring step only."


def start_again(
    chain: Chain, run: FlowRun, inputs: Mapping[str, Any] | None = None, *, idempotency_key: str = ""
) -> FlowRun:
    """Start a new run of the same flow with these inputs, by default the same; the old one stays as it is."""
    given = run.inputs if inputs is None else inputs
    return start(chain, run.flow, given, idempotency_key=idempotency_key)


def checked_inputs(schema: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with the schema's defaults filled in. Raises InvalidInput with a sentence per fault."""
    if not isinstance(inputs, Mapping):
        raise InvalidInput("The inputs of a run are named: give an object.", field="inputs")
    properties: Mapping[str, Any] = schema.get("properties") or {}
    known = {name: each["default"] for name, each in properties.items() if isinstance(each, dict) and "default" in each}
    checked = cleaning.checked_object({**copy.deepcopy(known), **inputs}, "inputs")
    faults = _faults(schema, checked)
    if faults:
        raise InvalidInput(" ".join(faults.values()), field="inputs", fields=faults)
    return checked


def _faults(schema: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, str]:
    """Input name -> what is wrong with it, in words; '' is the name of what concerns no single one."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    faults: dict[str, str] = {}
    for name in schema.get("required") or ():
        if inputs.get(name) in (None, ""):
            faults[name] = f"{_title(properties, name)} is needed."
    for name in inputs:
        if properties and name not in properties and schema.get("additionalProperties") is not True:
            faults[name] = f'There is no input "{name}". There is {", ".join(properties)}.'
    for error in Draft202012Validator(schema).iter_errors(dict(inputs)):
        name = str(error.absolute_path[0]) if error.absolute_path else ""
        if name or not faults:
            faults.setdefault(name, f"{_title(properties, name) if name else 'The inputs'}: {error.message}.")
    return faults


def _title(properties: Mapping[str, Any], name: str) -> str:
    each = properties.get(name)
    return str(each.get("title") or name) if isinstance(each, dict) else name


def _checked_name(name: str) -> str:
    told = cleaning.checked_title(name)
    return told[:MAX_NAME]


def _idempotency_row(chain: Chain, flow: Flow, key: str, body: Any) -> IdempotencyKey | None:
    """The row of this key, inserted first so that a twin waits; refused where it was used for another body."""
    told = json.dumps([flow.pk, body], sort_keys=True, default=str)
    digest = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    return idempotency.row_of(chain, "start", key, digest)


def start_called(
    chain: Chain, flow: Flow, version: FlowVersion, inputs: dict[str, Any], name: str, called_by: Visit
) -> FlowRun:
    """Start a run that a step of another one calls, inside the transaction that enters that step.

    Its first step is entered behind the commit, as a debt: that locks places of another flow, out of order here.
    """
    run = _insert(chain, flow, version, inputs, name, called_by=called_by)
    afterwards.later("run_begin", f"run_begin:{run.pk}", run)
    return run


@pays("run_begin")
def pay_run_begin(debt: Debt) -> bool:
    """Enter the first step of a called run, or queue for it; safe to repeat."""
    run, flow = runs.lock(debt.run_id or 0)
    if run.current_visit_id is None and not run.queued_step and run.status == RunStatus.ACTIVE:
        chain = runs.chain_of(run)
        with afterwards.collecting():
            runs.note(run, chain, "run.started", number=run.number)
            go(run, flow, Arrival(flow.start_step, chain, chain.name, StepChange.Trigger.START))
    return True


def _insert(
    chain: Chain,
    flow: Flow,
    version: FlowVersion,
    inputs: dict[str, Any],
    name: str,
    *,
    priority: int = 0,
    called_by: Visit | None = None,
) -> FlowRun:
    if flow.board.partition_by != Board.PartitionBy.NONE:
        raise InvalidInput(
            f"The board {flow.board.name} keeps everybody's rows apart, and a run is for all to see. "
            "Put the flow on a board without partitions."
        )
    if called_by is None:  # else the caller's own run is locked, and nobody knows of this one yet
        taking(Rank.FLOW_RUN)
    # The flow's row counts its runs; it is locked by nobody else, and before the run exists.
    Flow.objects.filter(pk=flow.pk).update(last_run_number=F("last_run_number") + 1)
    number = Flow.objects.values_list("last_run_number", flat=True).get(pk=flow.pk)
    told = name or f"{flow.name[: MAX_NAME - 20]} {number}"
    session = Session.objects.create(
        space_id=flow.space_id, kind=Session.Kind.FLOW_RUN, parent_id=chain.session_id, label=told
    )
    return FlowRun.objects.create(
        flow=flow,
        version=version,
        number=number,
        name=told,
        inputs=inputs,
        priority=priority,
        session=session,
        started_by_id=chain.user_id,
        started_by_name=chain.name,
        called_by=called_by,
    )


def _enter_first(chain: Chain, fresh: FlowRun, first: str = "") -> FlowRun:
    run, flow = runs.lock(fresh.pk)
    with afterwards.collecting():
        runs.note(run, chain, "run.started", number=run.number)
        wanted = flow.step(first) if first else flow.start_step
        assert wanted is not None  # of the same version
        step, has_place = wip.seat_for_new(run, flow, wanted)
        go(run, flow, Arrival(step, chain, chain.name, StepChange.Trigger.START, has_place=has_place))
    run.refresh_from_db()
    return run

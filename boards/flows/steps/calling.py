"""`call`: another flow runs as a child, and the step waits for its end (spec: 05 sections 1, 2.1).

The child is started in the transaction that enters the step. Its end leaves the debt `parent_advance`: that locks
another run. A child that is cancelled or fails fails the step.
"""

from __future__ import annotations

from typing import Any, Final

from boards.actors import Chain, service
from boards.debts.kinds import pays
from boards.errors import InvalidInput
from boards.flows import data, definition, input_templates, runs, starting
from boards.flows.advance import Trigger, advance
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.flows.steps.registry import starts
from boards.models import Debt, Flow, FlowRun, FlowVersion, Visit
from boards.states import Phase

MAX_DEPTH: Final = 10


@starts("call")
def start(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, chain: Chain) -> dict[str, Any]:
    if _depth(run) >= MAX_DEPTH:
        raise InvalidInput(f"Flows call one another {MAX_DEPTH} deep here, which is as deep as they may.")
    called = Flow.objects.filter(space=run.flow.space_id, key=step.flow).select_related("board", "space").first()
    version = None if called is None else FlowVersion.objects.filter(flow=called).order_by("-number").first()
    if called is None or version is None:
        raise InvalidInput(f"The step {step.name} calls the flow “{step.flow}”, which is not in this space.")
    version.flow = called
    schema = definition.load(version).inputs
    inputs = starting.checked_inputs(
        schema, input_templates.rendered(step.inputs or {}, schema, data.values(run, flow))
    )
    name = f"{run.name}, {step.name}"[: starting.MAX_NAME]
    starting.start_called(runs.chain_of(run), called, version, inputs, name, visit)
    return {"phase": Phase.WORKING}


def _depth(run: FlowRun) -> int:
    depth, caller = 1, run.called_by_id
    while caller is not None and depth < MAX_DEPTH:
        depth += 1
        caller = FlowRun.objects.filter(visits=caller).values_list("called_by", flat=True).first()
    return depth


@pays("parent_advance")
def pay_parent_advance(debt: Debt) -> bool:
    """A called run has ended: its caller's step goes on, or fails with it."""
    told = dict(debt.data)
    visit = Visit.objects.filter(pk=int(told["visit"])).select_related("run__flow").first()
    if visit is None:  # the caller was deleted meanwhile
        return True
    advance(
        visit.run_id,
        visit.pk,
        Trigger.CHILD_ENDED,
        operation_id=debt.unique_key,
        chain=service("flows", visit.run.flow.space_id),
        child=told["child"],
        ended=told["status"],
    )
    return True

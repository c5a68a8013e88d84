"""What a key may not do to a run although its member may (spec: 04 section 2.3, 06 section 6).

A key reaches the runs that its own session started, unless it has the scope `admin`. To move a card past a person, a
key needs the scope `decide`: otherwise an agent would open by a move the gate that it may not open by an answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from boards.actors import Chain
from boards.errors import Forbidden
from boards.flows.definition import ASKING_KINDS, FlowDefinition, StepDefinition
from boards.models import FlowRun, Hold, Scope, Task
from boards.states import HoldState, Status

_PAST_A_PERSON = (
    "People decide in this flow, and this would go past them. A person does it, or a key with the scope decide."
)


def require_run(chain: Chain, run: FlowRun) -> None:
    """Refuse with `Forbidden` what the acting key may not do to this run."""
    key = chain.key
    if key is None:
        return
    if Scope.ADMIN not in key.scopes and run.session.parent_id != chain.session_id:
        raise Forbidden(
            f"This run was started by {run.started_by_name or 'somebody else'}. A key acts on what it started itself; "
            "one with the scope admin also on what others started."
        )
    if _works_in(chain, run):
        raise Forbidden("Whoever works on a run does not move it. Ask a member.")


def require_way(chain: Chain, flow: FlowDefinition, run: FlowRun | None = None) -> None:
    """Refuse a key without `decide` to choose the step, where a person has a say in the flow or is asked now."""
    if chain.key is None or Scope.DECIDE in chain.key.scopes:
        return
    if person_decides(flow) or (run is not None and _waits_on_person(run)):
        raise Forbidden(_PAST_A_PERSON)


def person_decides(flow: FlowDefinition) -> bool:
    """Whether anybody is asked anywhere in the flow, by a step, a check or an approval of a move; pure."""
    return any(
        _asks(step) or any(_needs_yes(action.options) for action in flow.completion(step)) for step in flow.steps
    )


def _asks(step: StepDefinition) -> bool:
    inner = [*step.branches, *(step.on_failure.steps if step.on_failure else ())]
    checked = step.checker == "person" or any(task.checker == "person" for task in step.tasks)
    return step.kind in ASKING_KINDS or checked or any(_asks(each) for each in inner)


def _needs_yes(options: object) -> bool:
    return isinstance(options, Mapping) and bool(options.get("requires_approval") or options.get("quorum"))


def _waits_on_person(run: FlowRun) -> bool:
    tasks = Task.objects.filter(visit__run=run.pk)
    if tasks.filter(status=Status.NEEDS_CHECK).exists():
        return True
    open_holds = Hold.objects.filter(state=HoldState.OPEN)
    return open_holds.filter(visit__run=run.pk).exists() or open_holds.filter(task__in=tasks).exists()


def _works_in(chain: Chain, run: FlowRun) -> bool:
    """Whether an agent of the key's name works or is to work in the run now."""
    live = [Status.PENDING, Status.HELD, Status.IN_PROGRESS, Status.NEEDS_CHECK]
    return Task.objects.filter(visit__run=run.pk, status__in=live, assignee=chain.acting.name).exists()

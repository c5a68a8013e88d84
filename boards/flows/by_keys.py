"""What a key may not do to a run although its member may (spec: 04 section 2.3, 06 section 6).

A key reaches the runs that its own session started, unless it has the scope `admin`. To move a card past a person, a
key needs the scope `decide`: otherwise an agent would open by a move the gate that it may not open by an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from boards.actors import Chain
from boards.errors import Forbidden
from boards.flows.definition import ASKING_KINDS, FlowDefinition, StepDefinition, load
from boards.models import Flow, FlowRun, FlowVersion, Hold, Scope, Task
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


def require_way(chain: Chain, flow: FlowDefinition, place: Flow, run: FlowRun | None = None) -> None:
    """Refuse a key without `decide` to choose the step, where a person has a say in the flow or is asked now.

    `place`: the flow's row, whose board says who checks where a step does not.
    """
    if chain.key is None or Scope.DECIDE in chain.key.scopes:
        return
    if _person_decides_in(place, flow) or (run is not None and _waits_on_person(run)):
        raise Forbidden(_PAST_A_PERSON)


def _person_decides_in(place: Flow, flow: FlowDefinition) -> bool:
    """The same of a flow and of every flow that it calls, as those would be started now."""
    seen, left = {place.key}, [(place.board.checker, flow)]
    while left:
        checker, one = left.pop()
        if person_decides(one, checker):
            return True
        called = {step.flow for step in _all_steps(one.steps) if step.kind == "call"} - seen
        seen |= called
        newest = FlowVersion.objects.filter(flow__space=place.space_id, flow__key__in=called)
        versions = newest.order_by("flow", "-number").distinct("flow").select_related("flow__board")
        left += [(version.flow.board.checker, load(version)) for version in versions]
    return False


def person_decides(flow: FlowDefinition, checker: str = "none") -> bool:
    """Whether anybody is asked anywhere in the flow itself, by a step, a check or an approval of a move; pure.

    `checker`: of the board, for what names none.
    """
    return any(_asks(step, checker) for step in _all_steps(flow.steps)) or any(
        _needs_yes(action.options) for step in flow.steps for action in flow.completion(step)
    )


def _all_steps(steps: Iterable[StepDefinition]) -> Iterator[StepDefinition]:
    """With what stands inside of them."""
    for step in steps:
        yield step
        yield from _all_steps(step.branches)
        yield from _all_steps(step.on_failure.steps if step.on_failure else ())


def _asks(step: StepDefinition, checker: str) -> bool:
    files = step.files_task or step.kind == "loop" or bool(step.replanner)  # beside the works that it names
    named = step.checker or (checker if files else "")
    return step.kind in ASKING_KINDS or "person" in {named, *(task.checker or checker for task in step.tasks)}


def _needs_yes(options: object) -> bool:
    return isinstance(options, Mapping) and bool(options.get("requires_approval") or options.get("quorum"))


def _waits_on_person(run: FlowRun) -> bool:
    """Whether somebody is asked in the run now, or in one that it called."""
    runs = called = {run.pk}
    while called:
        called = set(FlowRun.objects.filter(called_by__run__in=called).values_list("pk", flat=True)) - runs
        runs = runs | called
    tasks = Task.objects.filter(visit__run__in=runs)
    if tasks.filter(status=Status.NEEDS_CHECK).exists():
        return True
    open_holds = Hold.objects.filter(state=HoldState.OPEN)
    return open_holds.filter(visit__run__in=runs).exists() or open_holds.filter(task__in=tasks).exists()


def _works_in(chain: Chain, run: FlowRun) -> bool:
    """Whether an agent of the key's name works or is to work in the run now."""
    live = [Status.PENDING, Status.HELD, Status.IN_PROGRESS, Status.NEEDS_CHECK]
    return Task.objects.filter(visit__run=run.pk, status__in=live, assignee=chain.acting.name).exists()

"""One work of a run: the task that it files, or the question that it asks, for a step or for a branch of one.

Works inside the transaction that advances the run, under its lock. It decides nothing: what a refusal or a template's
fault does to the step is said by whoever calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.db.models.functions import Now

from boards import people, tasks
from boards.errors import InvalidInput
from boards.flows import data, due_times, runs, templating
from boards.flows.definition import ASKING_KINDS, FlowDefinition, StepDefinition
from boards.models import Branch, FlowRun, Hold, Member, Role, Task, Visit
from boards.states import HoldKind, Phase
from boards.tasks import Filing

MAX_TITLE: Final = 200
# As a role is written in a flow; both numbers are understood.
ROLES: Final = {"member": Role.MEMBER, "members": Role.MEMBER, "operator": Role.OPERATOR, "operators": Role.OPERATOR}


def begin(
    run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, branch: Branch | None = None
) -> dict[str, Any]:
    """File the task or ask; answers what the visit, or the branch, is to say. Raises TemplatingError and Refusal."""
    if step.files_task:
        (task,) = file_all(run, flow, [step], visit)
        return {"phase": Phase.WORKING, "task": task, "due_at": due_of(run, step, branch)}
    if step.kind in ASKING_KINDS:
        return {"phase": Phase.WAITING, "due_at": _ask(run, flow, step, visit, branch).due_at}
    return {"phase": Phase.WAITING}


def begin_turn(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, message: str) -> dict[str, Any]:
    """A turn that a person's message starts: whoever works the step gets it with the prompts. Where nobody does, the
    card waits there as any other. Raises TemplatingError and Refusal.
    """
    if not step.files_task and not (step.kind == "column" and (step.assignee or flow.agent)):
        return {"phase": Phase.WAITING}
    (task,) = file_all(run, flow, [step], visit, message)
    return {"phase": Phase.WORKING, "task": task, "due_at": due_of(run, step, None)}


def file_all(
    run: FlowRun, flow: FlowDefinition, steps: Sequence[StepDefinition], visit: Visit, message: str = ""
) -> list[Task]:
    """File the tasks of several steps of one visit, all or none: one call, since it locks left of what it leaves.

    `message`: put behind the prompts as it stands; no template is read in it.
    """
    visits = data.visits_of(run)
    known, given = data.values(run, flow, visits=visits), data.task_input(run, visits)
    filings = [
        Filing(
            goal="\n\n".join(part for part in (goal_of(flow, step.prompt, known), message) if part),
            title=title_of(step.name, run),
            input=given,
            assignee=step.assignee or flow.agent,
            checker=step.checker,
            max_attempts=step.max_attempts,
        )
        for step in steps
    ]
    board = run.flow.board
    return tasks.file_tasks(runs.chain_of(run), board, filings, visit=visit, session_id=run.session_id, allow_same=True)


def title_of(name: str, run: FlowRun) -> str:
    title = f"{name}: {run.name}"
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


def due_in(ms: int | None) -> Any:
    """The due time so many milliseconds from now by the database's clock, or None."""
    return None if ms is None else Now() + timedelta(milliseconds=ms)


def goal_of(flow: FlowDefinition, prompt: str, known: dict[str, Any]) -> str:
    """The flow's prompt and then the step's, both worked out."""
    prompts = [templating.render(each, known).strip() for each in (flow.prompt, prompt)]
    return "\n\n".join(part for part in prompts if part)


def due_of(run: FlowRun, step: StepDefinition, branch: Branch | None) -> Any:
    """When the work is due: that of a step counts from its entry, a branch has its own due time or none."""
    return due_times.from_entry(step, run.flow.space) if branch is None else due_in(step.timeout_ms)


def _ask(run: FlowRun, flow: FlowDefinition, step: StepDefinition, visit: Visit, branch: Branch | None) -> Hold:
    known = data.values(run, flow)
    asked = templating.render(step.prompt, known).strip()
    ordinary = f"May “{run.name}” go on from {step.name}?" if step.kind == "approval" else f"{step.name}: {run.name}"
    return people.open_step_hold(
        runs.chain_of(run),
        visit,
        kind=HoldKind.APPROVAL if step.kind == "approval" else HoldKind.INPUT,
        prompt=asked or ordinary,
        title=title_of(step.name, run),
        draft=templating.render(step.draft, known) if step.draft else None,
        schema=dict(step.schema or {"type": "object"}) if step.kind == "input" else None,
        due_in_ms=step.timeout_ms,
        branch=branch,
        **decider(run, step.assignee, step.name),
    )


def decider(run: FlowRun, name: str, step_name: str) -> dict[str, Any]:
    """Who may answer: anyone with the right, those of one role, or one person by the name on the roster."""
    if not name:
        return {}
    if name in ROLES:
        return {"assignee_role": ROLES[name]}
    entry = run.flow.board.roster.filter(name=name, kind="person").first()
    if entry is None:
        raise InvalidInput(f"“{name}”, who is to answer the step {step_name}, is no person on this board's roster.")
    if not Member.objects.filter(space=run.flow.space_id, user=entry.user_id).exists():
        raise InvalidInput(f"“{name}”, who is to answer the step {step_name}, is no member of this space any more.")
    return {"assignee_id": entry.user_id}

"""Actions of a step's events that move nothing: tell somebody, forget earlier outputs, file a task beside the run.

`set_data` is worked out by `entering.changed_data`; the others are called from there, inside the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from boards import tasks
from boards.actors import service
from boards.debts.kinds import Undeliverable, pays
from boards.errors import InvalidInput, UnknownAssignee
from boards.flows import afterwards, runs, templating
from boards.flows.definition import Action
from boards.flows.works import ROLES
from boards.models import Debt, FlowRun, Member, TranscriptItem
from boards.tasks import Filing

MAX_MESSAGE: Final = 2_000
MAX_TOLD: Final = 500


def tell(run: FlowRun, to: str, message: str) -> None:
    """Say something to a member, to those of a role, or to whoever started the run; whoever delivers reads the event.

    Event `run.notified`, data {"text", "to", "users": [ids]}. Nobody of that name: it is said in the transcript.
    """
    told = message.strip()[:MAX_MESSAGE]
    users = _users(run, to)
    visit = run.current_visit
    runs.note(run, runs.chain_of(run), "run.notified", visit=visit, text=told, to=to, users=users)
    nobody = f"Nobody called “{to}” is a member here, so nobody was told: " if not users else "Told "
    names = "" if not users else f"{to or run.started_by_name or 'nobody'}: "
    line = f"{nobody}{names}{told}"
    TranscriptItem.objects.create(session_id=run.session_id, kind=TranscriptItem.Kind.STATUS, text=line)


def _users(run: FlowRun, to: str) -> list[int]:
    if not to:
        return [run.started_by_id] if run.started_by_id is not None else []
    members = Member.objects.filter(space=run.flow.space_id, user__is_active=True)
    if to in ROLES:
        return list(members.filter(role=ROLES[to]).order_by("user").values_list("user", flat=True)[:MAX_TOLD])
    entry = run.flow.board.roster.filter(name=to, kind="person").values_list("user", flat=True).first()
    named = members.filter(user=entry) if entry is not None else members.filter(user__username=to)
    return list(named.values_list("user", flat=True)[:1])


def _notify(run: FlowRun, action: Action, known: Mapping[str, Any]) -> None:
    message = templating.render(str(action.options.get("message", "")), known)
    tell(run, str(action.options.get("to") or ""), message)


def _reset_context(run: FlowRun, action: Action, known: Mapping[str, Any]) -> None:
    """Tasks of this step and of later ones are not told what was handed in before it."""
    visit = run.current_visit
    if visit is not None:
        runs.write(run, context_from=visit.number)


def _create_task(run: FlowRun, action: Action, known: Mapping[str, Any]) -> None:
    """A task beside the run, which waits for nothing of it; a debt, so that a full board cannot stop the run."""
    given = {name: str(action.options.get(name) or "") for name in ("goal", "title", "assignee")}
    goal, title = (templating.render(given[name], known).strip() for name in ("goal", "title"))
    key = f"flow_create_task:{run.pk}:{run.revision}:{afterwards.mark()}"
    afterwards.later("flow_create_task", key, run, goal=goal, title=title[:200], assignee=given["assignee"])


@pays("flow_create_task")
def pay_create_task(debt: Debt) -> bool:
    """File what an action `create_task` asked for; its session is the run's, and no step waits for it."""
    run = FlowRun.objects.select_related("flow__board").filter(pk=debt.run_id or 0).first()
    if run is None:
        return True
    chain = runs.chain_of(run) if run.started_by_id is not None else service("flows", run.flow.space_id)
    filing = Filing(goal=debt.data["goal"], title=debt.data["title"], assignee=debt.data["assignee"])
    try:
        tasks.file_task(chain, run.flow.board, filing, session_id=run.session_id, allow_same=True)
    except (InvalidInput, UnknownAssignee) as refusal:
        raise Undeliverable(refusal.sentence) from refusal
    return True


SIDE_EFFECTS: Final[Mapping[str, Callable[[FlowRun, Action, Mapping[str, Any]], None]]] = {
    "notify": _notify,
    "reset_context": _reset_context,
    "create_task": _create_task,
}

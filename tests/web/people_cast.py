"""The cast of the people pages' tests: one space, its members, a board, a flow with a run; rows that could exist.

Rows are made by the ORM where a test is about reading; whatever a test changes, it changes through the verbs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from boards.models import (
    Board,
    Flow,
    FlowRun,
    FlowStep,
    FlowVersion,
    Hold,
    Member,
    RosterEntry,
    Session,
    Space,
    Task,
    User,
    Visit,
)
from boards.states import Phase, Status

_number = itertools.count(1)

INPUTS = {
    "type": "object",
    "required": ["product"],
    "properties": {
        "product": {"type": "string", "title": "Product", "description": "As readers know it.", "maxLength": 60},
        "version": {"type": "string", "pattern": "^[0-9.]+$", "default": "2.4"},
        "changes": {"type": "string", "maxLength": 5000},
    },
}
STEPS = (
    ("collect", "Collect", "task", {"assignee": "collect"}),
    ("draft", "Draft", "agent", {"assignee": "writer"}),
    ("approve", "Approve", "approval", {"timeout_ms": 86_400_000}),
    ("publish", "Publish", "task", {"assignee": "publisher"}),
    ("done", "Done", "column", {}),
)


@dataclass
class Cast:
    space: Space
    board: Board
    flow: Flow
    version: FlowVersion
    anna: Member
    ben: Member
    vera: Member
    olga: Member
    filer: Session


def cast() -> Cast:
    """Anna and Ben are members, Vera only reads, Olga is an operator; Anna files."""
    number = next(_number)
    space = Space.objects.create(slug=f"halyard-{number}", name="Halyard")
    anna, ben = (_member(space, name, "member") for name in ("Anna Berg", "Ben Okri"))
    vera, olga = _member(space, "Vera Lund", "viewer"), _member(space, "Olga Maas", "operator")
    board = Board.objects.create(space=space, slug="release-desk", name="Release desk")
    for name, user in (("anna", anna.user), ("ben", ben.user)):
        RosterEntry.objects.create(board=board, name=name, kind="person", user=user)
    for name in ("writer", "shell"):
        RosterEntry.objects.create(board=board, name=name, kind="pull")
    flow = Flow.objects.create(
        space=space, board=board, key="release-notes", name="Release notes", description="Writes and publishes them."
    )
    version = FlowVersion.objects.create(flow=flow, number=1, settings={"style": "pipeline", "inputs": INPUTS})
    for position, (key, name, kind, settings) in enumerate(STEPS):
        FlowStep.objects.create(version=version, key=key, name=name, kind=kind, position=position, settings=settings)
    return Cast(space, board, flow, version, anna, ben, vera, olga, session(anna))


def _member(space: Space, name: str, role: str) -> Member:
    first, last = name.split()
    user = User.objects.create(username=f"{first.lower()}-{next(_number)}", first_name=first, last_name=last)
    return Member.objects.create(space=space, user=user, role=role)


def session(member: Member) -> Session:
    found, _ = Session.objects.get_or_create(
        space=member.space, user=member.user, kind="member", defaults={"label": member.user.display}
    )
    return found


def task(who: Cast, title: str = "Collect the changes", *, status: str = Status.PENDING, **fields: Any) -> Task:
    ended = {"completed_at": timezone.now()} if status in {"completed", "errored", "cancelled"} else {}
    working = {"lease_until": timezone.now() + timedelta(minutes=2)} if status == "in_progress" else {}
    defaults: dict[str, Any] = {
        "public_id": f"t{next(_number)}",
        "goal": f"{title}.",
        "assignee": "writer",
        "filer": who.filer,
        "filed_by": "Anna Berg",
        "created_by": who.anna.user,
    }
    return Task.objects.create(board=who.board, title=title, status=status, **(defaults | ended | working | fields))


def hold(who: Cast, on: Task | Visit, kind: str = "question", **fields: Any) -> Hold:
    subject = {"task": on, "source": "worker"} if isinstance(on, Task) else {"visit": on, "source": "step"}
    defaults: dict[str, Any] = {
        "prompt": "Which name stays?",
        "asker": "writer",
        "dedup_key": f"key-{next(_number)}",
        "attempt": 1,
        "options": [
            {"value": "strict", "label": "strict mode", "description": "What the code says."},
            {"value": "safe", "label": "safe mode", "description": "Friendlier."},
        ]
        if kind == "question"
        else [],
    }
    made = Hold.objects.create(board=who.board, kind=kind, **(subject | defaults | fields))
    if isinstance(on, Task):
        Task.objects.filter(pk=on.pk).update(open_holds=on.open_holds + 1)
    return made


def run(who: Cast, name: str = "Halyard 2.4", **fields: Any) -> FlowRun:
    who.flow.last_run_number += 1
    who.flow.save(update_fields=["last_run_number"])
    own = Session.objects.create(space=who.space, kind="flow_run")
    defaults: dict[str, Any] = {
        "inputs": {"product": "Halyard", "version": "2.4"},
        "started_by": who.anna.user,
        "started_by_name": "Anna Berg",
    }
    if fields.get("status", "active") != "active":
        defaults["completed_at"] = timezone.now()
    return FlowRun.objects.create(
        flow=who.flow,
        version=who.version,
        number=who.flow.last_run_number,
        name=name,
        session=own,
        **(defaults | fields),
    )


def visit(of: FlowRun, step: str, phase: str = Phase.WORKING, **fields: Any) -> Visit:
    """The run's next stay in a step; the one before is left."""
    of.visits.filter(left_at=None).update(left_at=timezone.now(), phase=Phase.LEFT)
    made = Visit.objects.create(run=of, step_key=step, number=of.visits.count() + 1, phase=phase, **fields)
    FlowRun.objects.filter(pk=of.pk).update(current_visit=made, step_key=step)
    of.current_visit, of.step_key = made, step
    return made


def approval(who: Cast, draft: Any = "# Halyard 2.4\n\nTwo fixes.", *, due_in: timedelta | None = None) -> Hold:
    """A run that stands in its approval, with the draft."""
    of = run(who)
    stay = visit(of, "approve", Phase.WAITING)
    return hold(
        who,
        stay,
        "approval",
        title="Are the notes for Halyard 2.4 right?",
        prompt="Approve the draft, or say what to change.",
        asker="Release notes",
        draft=draft,
        draft_hash="a41f9c00" * 8,
        due_at=soon(due_in) if due_in else None,
    )


def soon(by: timedelta) -> datetime:
    return timezone.now() + by

"""Who is to decide a question, and handing it to somebody else (spec: 04 sections 1.1 and 2.3)."""

from __future__ import annotations

from typing import Any

from django.db.models import F

from boards import errors
from boards.actors import Chain
from boards.event_log import Entry, record
from boards.locks import engine_transaction
from boards.models import Board, Hold, Member, Role, RosterEntry, Task
from boards.people import closing
from boards.people.words import closed_words
from boards.states import HoldState
from boards.tasks import aftermath, cleaning


def for_whom(board: Board, name: str) -> dict[str, Any]:
    """The columns that say who decides: anyone with the right, those of one role, or one person by roster name."""
    name = cleaning.checked_text(name, "assignee", 100).strip()
    nobody: dict[str, Any] = {"assignee_id": None, "assignee_role": ""}
    if not name:
        return nobody
    entry = board.roster.filter(name=name, kind=RosterEntry.Kind.PERSON).first()
    if entry is not None and Member.objects.filter(space=board.space_id, user=entry.user_id).exists():
        return nobody | {"assignee_id": entry.user_id}
    if entry is None and name in {Role.MEMBER, Role.OPERATOR}:
        return nobody | {"assignee_role": name}
    raise errors.InvalidInput(f"“{name}” is no person on the roster of {board.name}, and no role.", field="assignee")


def assign_hold(chain: Chain, hold_id: int, to: str) -> Hold:
    """Hand an open question to a person of the roster, to a role, or (with "") to whoever may decide.

    By somebody who may decide it, or by an operator; never by whoever asked. Raises NotFound, Forbidden, InvalidInput,
    AlreadyAnswered.
    """
    operates = chain.acting.kind == "person" and chain.acting.role == Role.OPERATOR
    seen = closing.visible(chain, hold_id, "holds.assign", whoever_decides=operates)
    closing.refuse_the_asker(chain, seen)
    return _assign(chain, hold_id, to)


@engine_transaction
def _assign(chain: Chain, hold_id: int, to: str) -> Hold:
    hold, subject = closing.lock(hold_id)
    if hold.state != HoldState.OPEN:
        raise errors.AlreadyAnswered(closed_words(hold), hold=hold)
    columns = for_whom(hold.board, to)
    Hold.objects.filter(pk=hold.pk, state=HoldState.OPEN).update(**columns, revision=F("revision") + 1)
    record(
        Entry(
            "hold.assigned",
            chain,
            board_id=hold.board_id,
            task_key=hold.task_id,
            run_id=aftermath.run_of(subject) if isinstance(subject, Task) else subject.pk,
            attempt=hold.attempt,
            data={"hold": hold.pk, "prompt": hold.prompt[:500], "to": to[:100]},
        )
    )
    hold.refresh_from_db()
    return hold

"""Gate drafts that the product itself sends on a yes, to the outlet that the asker's roster entry names (spec: 04, 1).

The address is fixed when the draft is asked about, so what the page said is what happens. Sending is a debt: it is
repeated with back-off under one id, by which the receiver knows a repeat; an answer that no repeat can change is none.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Now

from boards import live_notices, outbound
from boards.debts import owing, paying
from boards.debts.kinds import pays_outside
from boards.debts.paying import Paid
from boards.locks import Rank, engine_transaction, taking
from boards.models import Debt, FlowRun, Hold, RosterEntry, Task
from boards.states import HoldKind, HoldState

KIND: Final = "deliver_gate"
TRYING_FOR: Final = timedelta(seconds=60)  # a payer that is still at it after so long has died


def outlet_of(kind: str, entry: RosterEntry | None) -> str:
    """The address to which the product sends a draft of this asker; "" where the asker sends it."""
    named = (entry.config or {}).get("outlet") if entry is not None and kind == HoldKind.GATE else ""
    return named if isinstance(named, str) else ""


def delivery_key(hold: Hold) -> str:
    return f"{KIND}:{hold.pk}"


def owe_delivery(hold: Hold, subject: Task | FlowRun) -> None:
    """In the transaction of a yes to a draft with an outlet: send it, once the answer has settled."""
    sends = hold.state == HoldState.ANSWERED and (hold.answer or {}).get("choice") == "send"
    if hold.outlet and sends and isinstance(subject, Task):
        owing.owe(KIND, delivery_key(hold), task=subject, due_at=hold.settles_at, data={"hold": hold.pk})


@pays_outside(KIND)
def deliver(debt_id: int) -> Paid:
    """Send one draft. Outside of any transaction: the receiver may be slow."""
    hold = _take(debt_id)
    if hold is None:
        return Paid.NOT_DUE
    try:
        outbound.send_json(hold.outlet, _body(hold), f"gate-{hold.pk}", _secret(hold))
    except Exception as error:  # `Refused` is final, anything else is tried again
        paying.note_failure(debt_id, error)
        return Paid.FAILED
    return _delivered(debt_id, hold)


@engine_transaction
def _take(debt_id: int) -> Hold | None:
    """By one conditional write, so that two payers never send at the same time."""
    taking(Rank.DEBT)
    owed = Debt.objects.filter(pk=debt_id, state=Debt.State.OWED, due_at__lte=Now())
    if not owed.update(due_at=Now() + TRYING_FOR):
        return None
    hold_id = int(Debt.objects.get(pk=debt_id).data["hold"])
    return Hold.objects.select_related("task__board").filter(pk=hold_id).first()


@engine_transaction
def _delivered(debt_id: int, hold: Hold) -> Paid:
    taking(Rank.HOLD)
    Hold.objects.filter(pk=hold.pk).update(delivered_at=Now(), revision=F("revision") + 1)
    taking(Rank.DEBT)
    Debt.objects.filter(pk=debt_id).delete()
    live_notices.changed(hold.board_id, task_key=hold.task_id)
    return Paid.PAID


def _secret(hold: Hold) -> str:
    """By which the outlet knows the product: of the environment, under the name that the roster entry says."""
    assert hold.task is not None  # only a task's draft has an outlet
    entry = RosterEntry.objects.filter(board=hold.board_id, name=hold.task.assignee).first()
    named = (entry.config or {}).get("outlet_secret") if entry else ""
    return os.environ.get(named, "") if isinstance(named, str) and named else ""


def _body(hold: Hold) -> dict[str, Any]:
    assert hold.task is not None
    return {
        "type": "gate.send",
        "hold": hold.pk,
        "board": hold.task.board.slug,
        "task_id": hold.task.public_id,
        "attempt": hold.attempt,
        "title": hold.title,
        "payload": hold.draft,
        "payload_hash": hold.draft_hash,
        "approved_by": hold.answered_by_name,
        "approved_at": hold.answered_at.isoformat() if hold.answered_at else None,
        "note": (hold.answer or {}).get("text", ""),
    }

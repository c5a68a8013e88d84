"""What happens to a question when nobody answers it, and when: one answer for card, list and run page (spec: 04, 3.1).

Words about what the sweeper and the flow engine do; it decides nothing and reads little beyond the row that it is
given.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from boards.flows import due_times
from boards.models import Branch, Hold, Visit
from boards.states import HoldKind

# A confirm has no options of its own whose labels could be read.
_CONFIRM: Final = {"yes": gettext_lazy("Yes"), "no": gettext_lazy("No")}


@dataclass(frozen=True, slots=True)
class IfNobody:
    """`at`: the moment by the database clock, None where nothing is due.

    `short` stands behind the time in a row's corner ("then a no"); `then` ends "If nobody answers by TIME, …", or is
    the whole sentence where nothing is due.
    """

    at: datetime | None
    short: str
    then: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a hold that its silence depends on. `visit_due_at`: of the visit whose turn the hold's task is."""

    kind: str
    due_at: datetime | None = None
    default_label: str = ""
    on_step: bool = False
    visit_due_at: datetime | None = None


def if_nobody(hold: Hold) -> IfNobody:
    """The one answer about a stored hold; reads `hold.task.visit`, so select it where many are asked about."""
    return silence(asked(hold))


def asked(hold: Hold) -> Asked:
    visit = hold.task.visit if hold.task_id and hold.task else None
    return Asked(
        hold.kind,
        hold.due_at,
        option_label(hold.options, hold.default),
        hold.visit_id is not None,
        _step_due(visit, hold.task_id) if visit is not None and visit.left_at is None else None,
    )


def due_of(due_at: datetime | None, visit_due_at: datetime | None) -> datetime | None:
    """When something happens by itself: the earlier of the hold's due time and that of its visit."""
    return min((at for at in (due_at, visit_due_at) if at is not None), default=None)


def _step_due(visit: Visit, task_key: int | None) -> datetime | None:
    """When the step withdraws the task that asks; of several works of a step each may have a time of its own."""
    if visit.task_id == task_key:
        return visit.due_at
    work = Branch.objects.filter(visit=visit, task=task_key, ended_at=None).first()
    return due_times.due_of(visit, work) if work is not None else None


def silence(it: Asked) -> IfNobody:
    """The earlier of the hold's own due time and that of the visit decides what is said."""
    if it.visit_due_at and (it.due_at is None or it.visit_due_at <= it.due_at):
        return IfNobody(it.visit_due_at, _("then withdrawn"), _("the due time of the step withdraws the task."))
    if it.due_at is None:
        return IfNobody(None, "", _("If nobody answers, it goes on waiting."))
    return IfNobody(it.due_at, *_past_due(it))


def option_label(options: Any, value: str) -> str:
    """What people read for a stored choice; the value itself where no option has it."""
    rows = options if isinstance(options, list) else []
    found = (str(row.get("label") or "") for row in rows if isinstance(row, dict) and row.get("value") == value)
    return next(found, "") or value


def _past_due(it: Asked) -> tuple[str, str]:
    if it.kind in {HoldKind.QUESTION, HoldKind.CONFIRM}:
        if not it.default_label:
            return _("then overdue"), _("it shows as overdue and goes on waiting.")
        named = {
            "label": _CONFIRM.get(it.default_label, it.default_label)
            if it.kind == HoldKind.CONFIRM
            else it.default_label
        }
        return _("then “%(label)s”") % named, _("the answer is “%(label)s”, as its author named.") % named
    if it.kind == HoldKind.GATE:
        return _("then discarded"), _("it is discarded and nothing goes out.")
    if it.kind == HoldKind.APPROVAL:
        then = _("it reads as a no; the step takes its way for a no, or fails.")
        return _("then a no"), then if it.on_step else _("it reads as a no.")
    if it.on_step:
        return _("then the step fails"), _("the step fails.")
    return _("then the attempt fails"), _("the attempt fails.")

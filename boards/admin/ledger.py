"""What happened, what is owed and who is alive: the event log, debts, processes."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from boards import policy
from boards.actors import Chain
from boards.admin.acting import Act, Answered
from boards.admin.window import OfMySpaces, Window, operates, spaces_of
from boards.debts import paying
from boards.models import Board, Debt, Event, Process


@admin.register(Event)
class EventPage(Window):
    list_display = ("at", "kind", "actor", "board", "task", "run", "from_status", "to_status", "cause")
    list_filter = ("kind", ("board", OfMySpaces), "at")
    list_select_related = ("board", "task", "run")
    search_fields = ("task__public_id", "cause", "kind")
    ordering = ("-id",)
    fields = ("at", "kind", "who", "board", "task", "run", "attempt", "from_status", "to_status", "cause", "data")

    @admin.display(description=_("through whom"))
    def who(self, event: Event) -> str:
        return " → ".join(f"{hop.get('kind', '')} {hop.get('name', '')}" for hop in event.chain)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("who",)


def _pay(chain: Chain, debt: Debt, _words: str) -> Answered:
    policy.require(chain, "debts.pay")
    if debt.payer != "any":
        return Answered(False, _now("Only a drain can pay this: it is about a process that the drain runs."))
    match paying.pay(debt.pk):
        case paying.Paid.PAID:
            return Answered(True, "")
        case paying.Paid.NOT_DUE:
            return Answered(False, _now("Another debt has to be paid first."))
        case paying.Paid.GONE:
            return Answered(False, _now("It is paid already, or has failed for good."))
    return Answered(False, Debt.objects.filter(pk=debt.pk).values_list("last_error", flat=True).first() or "")


@admin.register(Debt)
class DebtPage(Window):
    acts = (Act("pay", _("Pay now"), _pay),)
    list_display = ("kind", "subject", "state", "payer", "due_at", "tries", "last_error")
    list_filter = ("state", "kind", "due_at")
    list_select_related = ("task__board__space", "run__flow__space")
    search_fields = ("unique_key", "last_error", "task__public_id")
    ordering = ("due_at", "id")

    @admin.display(description=_("owed for"))
    def subject(self, debt: Debt) -> str:
        return str(debt.task or debt.run or "")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        mine = spaces_of(request)
        rows = Debt.objects.all()
        return rows.filter(task__board__space__in=mine) | rows.filter(run__flow__space__in=mine)

    def space_id_of(self, row: Debt) -> int:
        board = row.task.board if row.task else row.run.flow if row.run else None
        assert board is not None  # the query above takes rows with a task or a run only
        return board.space_id


@admin.register(Process)
class ProcessPage(Window):
    """Drains and sweepers serve every space, so only operators see them, without what they serve elsewhere."""

    list_display = (
        "kind",
        "host",
        "pid",
        "version",
        "slots",
        "busy",
        "listening",
        "started_at",
        "beat_at",
        "stopped_at",
    )
    list_filter = ("kind", "listening", "beat_at")
    ordering = ("-beat_at",)
    fields = (
        "kind",
        "host",
        "pid",
        "version",
        "serves",
        "slots",
        "busy",
        "listening",
        "started_at",
        "beat_at",
        "stopped_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return Process.objects.all() if operates(request) or request.user.is_superuser else Process.objects.none()

    @admin.display(description=_("boards"))
    def serves(self, process: Process) -> str:
        if not process.boards:
            return str(_("all"))
        return json.dumps(list(Board.objects.filter(pk__in=process.boards).values_list("slug", flat=True)))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("serves",)

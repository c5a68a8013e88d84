"""What happened, what is owed and who is alive: the event log, debts, processes."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from boards.actors import Chain
from boards.admin.acting import Act, Answered
from boards.admin.window import OfMySpaces, Window, operates, spaces_of
from boards.debts import operating
from boards.debts.paying import Paid
from boards.models import Board, Debt, Event, Process, Task
from boards.queries import health


@admin.register(Event)
class EventPage(Window):
    list_display = ("at", "kind", "actor", "board", "about", "run", "from_status", "to_status", "cause")
    list_filter = ("kind", ("board", OfMySpaces), "at")
    list_select_related = ("board", "task", "run")
    search_fields = ("task__public_id", "cause", "kind")
    ordering = ("-id",)
    fields = ("at", "kind", "who", "board", "about", "run", "attempt", "from_status", "to_status", "cause", "data")

    @admin.display(description=_("through whom"))
    def who(self, event: Event) -> str:
        return " → ".join(f"{hop.get('kind', '')} {hop.get('name', '')}" for hop in event.chain)

    @admin.display(description=_("task"))
    def about(self, event: Event) -> str:
        """The task; of one that retention removed its key, which the board's event of the removal explains."""
        if event.task_id is None:
            return ""
        task = Task.objects.filter(pk=event.task_id).first() if "task" not in event._state.fields_cache else event.task
        return str(task) if task else _now("removed task %(key)s") % {"key": event.task_id}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("who", "about")


def _pay(chain: Chain, debt: Debt, _words: str) -> Answered:
    match operating.pay_again(chain, debt.pk):
        case Paid.PAID if debt.payer != "any":
            return Answered(True, _now("Only a drain can pay this; the next one that can is asked to."))
        case Paid.PAID:
            return Answered(True, "")
        case Paid.NOT_DUE:
            return Answered(False, _now("Another debt has to be paid first."))
        case Paid.GONE:
            return Answered(False, _now("It is paid already."))
    return Answered(False, Debt.objects.filter(pk=debt.pk).values_list("last_error", flat=True).first() or "")


def _drop(chain: Chain, debt: Debt, _words: str) -> None:
    operating.drop(chain, debt.pk)


@admin.register(Debt)
class DebtPage(Window):
    acts = (Act("pay", _("Pay now"), _pay), Act("drop", _("Drop"), _drop))
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

    change_list_template = "admin/boards/process/change_list.html"
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
        "swept_at",
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
        "swept_at",
        "stopped_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return Process.objects.all() if _may_see_processes(request) else Process.objects.none()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Above the list, how the sweepers do; the same words and figures as at `/readyz` and in the metrics."""
        told = health.sweepers().sentence if _may_see_processes(request) else ""
        return super().changelist_view(request, {**(extra_context or {}), "sweepers": told})

    @admin.display(description=_("boards"))
    def serves(self, process: Process) -> str:
        if not process.boards:
            return str(_("all"))
        return json.dumps(list(Board.objects.filter(pk__in=process.boards).values_list("slug", flat=True)))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("serves",)


def _may_see_processes(request: HttpRequest) -> bool:
    return operates(request) or bool(request.user.is_superuser)

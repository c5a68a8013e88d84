"""Flow runs, as operators look for them."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from boards import flows
from boards.admin.acting import Act
from boards.admin.window import OfMySpaces, Window
from boards.models import FlowRun


@admin.register(FlowRun)
class RunPage(Window):
    acts = (
        Act(
            "cancel_run",
            _("Cancel the run"),
            lambda chain, run, words: flows.cancel_run(chain, run, words),
            asks=_("Reason (may be left out)"),
        ),
    )
    space_path = "flow__space"
    event_field = "run"
    list_display = ("name", "flow", "number", "status", "step", "started_by_name", "created_at", "completed_at")
    list_filter = ("status", ("flow", OfMySpaces), "created_at")
    list_select_related = ("flow__space", "current_visit")
    search_fields = ("name", "flow__key", "started_by_name")
    ordering = ("-id",)
    exclude = ("session", "position")

    @admin.display(description=_("step"))
    def step(self, run: FlowRun) -> str:
        return run.queued_step or (run.current_visit.step_key if run.current_visit else "")

    def view_on_site(self, obj: FlowRun) -> str:
        return reverse("web:run", args=[obj.flow.key, obj.number])

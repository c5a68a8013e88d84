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
            _("Cancel run"),
            lambda chain, run, words: flows.cancel_run(chain, run, words),
            asks=_("Reason (may be left out)"),
        ),
        Act("archive", _("Archive"), lambda chain, run, words: flows.archive(chain, run)),
        Act("unarchive", _("Take out of the archive"), lambda chain, run, words: flows.unarchive(chain, run)),
    )
    space_path = "flow__space"
    event_field = "run"
    list_display = ("name", "flow", "number", "status", "step", "started_by_name", "created_at", "completed_at")
    list_filter = ("status", ("flow", OfMySpaces), ("archived_at", admin.EmptyFieldListFilter), "created_at")
    list_select_related = ("flow__space", "current_visit")
    search_fields = ("name", "flow__key", "started_by_name")
    ordering = ("-id",)
    exclude = ("session", "position")

    @admin.display(description=_("step"))
    def step(self, run: FlowRun) -> str:
        return str(_("in line for %(step)s") % {"step": run.queued_step}) if run.queued_step else run.step_key

    def view_on_site(self, obj: FlowRun) -> str:
        return reverse("web:run", args=[obj.flow.key, obj.number])

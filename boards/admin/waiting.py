"""Holds: what waits on people. They are answered on the pages; here an operator finds and dismisses them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from boards import people
from boards.admin.acting import Act
from boards.admin.window import OfMySpaces, Window
from boards.models import Hold


@admin.register(Hold)
class HoldPage(Window):
    acts = (Act("dismiss", _("Dismiss the question"), lambda chain, hold, _words: people.dismiss_hold(chain, hold.pk)),)
    space_path = "board__space"
    list_display = ("__str__", "kind", "state", "board", "subject", "asker", "asked_at", "due_at", "answered_by_name")
    list_filter = ("state", "kind", ("board", OfMySpaces), "asked_at", "due_at")
    list_select_related = ("board__space", "task__board", "visit__run__flow")
    search_fields = ("title", "prompt", "task__public_id", "asker")
    ordering = ("-id",)
    exclude = ("dedup_key", "content_hash", "draft_hash", "answer_key", "request_id", "asker_session")

    @admin.display(description=_("asked about"))
    def subject(self, hold: Hold) -> str:
        return str(hold.task or (hold.visit and hold.visit.run) or "")

    def view_on_site(self, obj: Hold) -> str:
        if obj.task:
            return reverse("web:task", args=[obj.board.slug, obj.task.public_id])
        assert obj.visit is not None  # a hold has exactly one subject (constraint)
        return reverse("web:run", args=[obj.visit.run.flow.key, obj.visit.run.number])

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("subject",)

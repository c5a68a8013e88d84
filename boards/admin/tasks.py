"""Tasks and their attempts, as operators look for them and act on them. Status is nowhere a field that can be set."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from boards import tasks
from boards.actors import Chain
from boards.admin.acting import Act, Answered
from boards.admin.window import OfMySpaces, Window, spaces_of
from boards.models import Attempt, RosterEntry, Task, TaskDep
from boards.states import LIVE, TERMINAL


def _cancels(rows: QuerySet[Task]) -> str:
    waiting = TaskDep.objects.filter(dependency__in=rows.order_by(), dependent__status__in=LIVE)
    waiting = waiting.exclude(dependent__in=rows.order_by())
    count = waiting.values("dependent").distinct().count()
    if not count:
        return ""
    return ngettext(
        "%(n)d task that depends on them is skipped with them.",
        "%(n)d tasks that depend on them are skipped with them.",
        count,
    ) % {"n": count}


def _set_priority(chain: Chain, task: Task, words: str) -> Any:
    if not words.lstrip("-").isdecimal():
        return Answered(False, f"“{words}” is no whole number.")
    return tasks.set_priority(chain, task, int(words))


ACTS = (
    Act("retry", _("Retry"), lambda chain, task, _words: tasks.retry(chain, task)),
    Act(
        "skip",
        _("Skip"),
        lambda chain, task, words: tasks.skip(chain, task, words),
        asks=_("Reason"),
        needs_words=True,
        hits=_cancels,
    ),
    Act(
        "cancel",
        _("Cancel"),
        lambda chain, task, words: tasks.cancel(chain, task, words),
        asks=_("Reason (may be left out)"),
        hits=_cancels,
    ),
    Act("hold", _("Hold back"), lambda chain, task, _words: tasks.hold(chain, task)),
    Act("release", _("Release"), lambda chain, task, _words: tasks.release(chain, task)),
    Act("reclaim", _("Reclaim from a lost worker"), lambda chain, task, _words: tasks.reclaim(chain, task)),
    Act(
        "set_assignee",
        _("Reassign"),
        lambda chain, task, words: tasks.set_assignee(chain, task, words),
        asks=_("New assignee: a name on the board's roster"),
        needs_words=True,
    ),
    Act(
        "set_priority",
        _("Set priority"),
        _set_priority,
        asks=_("Priority: a whole number, higher first"),
        needs_words=True,
    ),
)


class ByAssignee(admin.SimpleListFilter):
    """The names on rosters, not those on a million tasks."""

    title = _("assignee")
    parameter_name = "assignee"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = RosterEntry.objects.filter(board__space__in=spaces_of(request))
        return [(name, name) for name in rows.order_by("name").values_list("name", flat=True).distinct()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(assignee=self.value()) if self.value() else queryset


class ByAge(admin.SimpleListFilter):
    title = _("due")
    parameter_name = "due"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("overdue", _("Overdue")), ("ahead", _("Still ahead")), ("none", _("No due time"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "overdue":
                return queryset.filter(due_at__lt=Now()).exclude(status__in=TERMINAL)
            case "ahead":
                return queryset.filter(due_at__gte=Now())
            case "none":
                return queryset.filter(due_at=None)
        return queryset


@admin.register(Task)
class TaskPage(Window):
    acts = ACTS
    space_path = "board__space"
    event_field = "task"
    list_display = ("public_id", "label", "board", "status", "assignee", "attempts", "due_at")
    list_display_links = ("public_id", "label")
    list_filter = ("status", ("board", OfMySpaces), ByAssignee, ByAge, "created_at", "updated_at")
    list_select_related = ("board__space",)
    search_fields = ("public_id", "title", "goal", "error")
    search_help_text = _("Words of id, title, goal or error; “label:docs” for a label")
    ordering = ("-key",)
    fieldsets = (
        (None, {"fields": ("public_id", "board", "title", "goal", "context", "input", "labels", "priority", "due_at")}),
        (_("State"), {"fields": ("status", "status_note", "kept_open_by", "error", "cancelled_via", "withdrawn")}),
        (_("Result"), {"fields": ("output", "output_is_checkpoint", "feedback", "steers", "metadata")}),
        (_("Who"), {"fields": ("assignee", "checker", "filed_by", "filer", "filed_by_task", "follow_up_of")}),
        (_("Tries"), {"fields": ("attempts", "failures", "abandonments", "max_attempts", "retry_ledger")}),
        (_("Claim"), {"fields": ("run", "lease_until", "lease_duration_ms")}),
        (_("Times"), {"fields": ("created_at", "started_at", "updated_at", "completed_at", "revision")}),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        words = search_term.split()
        labels = [word.removeprefix("label:") for word in words if word.startswith("label:")]
        rest = " ".join(word for word in words if not word.startswith("label:"))
        found, doubled = super().get_search_results(request, queryset, rest)
        return (found.filter(labels__contains=labels) if labels else found), doubled

    def view_on_site(self, obj: Task) -> str:
        return reverse("web:task", args=[obj.board.slug, obj.public_id])


@admin.register(Attempt)
class AttemptPage(Window):
    space_path = "task__board__space"
    list_display = ("task", "number", "assignee", "ending", "started_at", "ended_at", "error")
    list_filter = ("ending", ByAssignee, "started_at")
    list_select_related = ("task__board__space",)
    search_fields = ("task__public_id", "error")
    ordering = ("-id",)
    fields = (
        "task",
        "number",
        "assignee",
        "started_at",
        "ended_at",
        "ending",
        "error",
        "output",
        "steps",
        "spend",
        "session",
    )

    def view_on_site(self, obj: Attempt) -> str:
        return reverse("web:task", args=[obj.task.board.slug, obj.task.public_id])

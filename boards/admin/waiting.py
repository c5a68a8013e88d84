"""Holds: what waits on people, who answered what, and what nobody answered in time (spec: 04; 08 section 3).

They are answered on the pages; here an operator finds them, dismisses them and takes the list away as CSV.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import DurationField, ExpressionWrapper, F, QuerySet
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from boards import people
from boards.admin.acting import Act
from boards.admin.window import OfMySpaces, Window
from boards.models import Hold
from boards.states import HoldState

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_COLUMNS = (
    *("id", "board", "about", "kind", "state", "title", "prompt", "asker", "asked_at", "due_at", "for"),
    *("answer", "note", "answered_by", "answered_at", "waited_s", "closed_reason"),
)


class WaitedFor(admin.SimpleListFilter):
    """Questions by how long they wait, or waited until somebody answered."""

    title = _("waited for")
    parameter_name = "waited"
    SPANS = {"1h": timedelta(hours=1), "4h": timedelta(hours=4), "1d": timedelta(days=1), "7d": timedelta(days=7)}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("1h", _("over an hour")),
            ("4h", _("over four hours")),
            ("1d", _("over a day")),
            ("7d", _("over a week")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Hold]) -> QuerySet[Hold]:
        span = self.SPANS.get(self.value() or "")
        return queryset.filter(waited__gt=span) if span else queryset  # type: ignore[misc]  # annotated by the page


class PastDue(admin.SimpleListFilter):
    """What became of questions with a due time."""

    title = _("due time")
    parameter_name = "past_due"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("overdue", _("open and overdue")),
            ("expired", _("nobody answered in time")),
            ("in_time", _("answered in time")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Hold]) -> QuerySet[Hold]:
        match self.value():
            case "overdue":
                return queryset.filter(state=HoldState.OPEN, due_at__lte=Now())
            case "expired":
                return queryset.filter(state=HoldState.EXPIRED)
            case "in_time":
                return queryset.filter(state=HoldState.ANSWERED, due_at__isnull=False, answered_at__lte=F("due_at"))
        return queryset


class AnsweredBy(admin.SimpleListFilter):
    """Who answered; the names that stand on the rows of the reader's spaces."""

    title = _("answered by")
    parameter_name = "answered_by"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        names = model_admin.get_queryset(request).exclude(answered_by=None).order_by("answered_by_name")
        found = names.values_list("answered_by", "answered_by_name").distinct()[:50]
        return [(str(pk), name) for pk, name in found]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Hold]) -> QuerySet[Hold]:
        value = self.value() or ""
        return queryset.filter(answered_by=int(value)) if value.isascii() and value.isdigit() else queryset


@admin.register(Hold)
class HoldPage(Window):
    acts = (Act("dismiss", _("Dismiss question"), lambda chain, hold, _words: people.dismiss_hold(chain, hold.pk)),)
    space_path = "board__space"
    list_display = (
        *("__str__", "kind", "state", "board", "subject", "asker", "asked_at", "due_at"),
        *("said", "answered_by_name", "answered_at", "waited_for"),
    )
    list_filter = ("state", "kind", ("board", OfMySpaces), WaitedFor, PastDue, AnsweredBy, "asked_at", "due_at")
    list_select_related = ("board__space", "task__board", "visit__run__flow", "assignee")
    search_fields = ("title", "prompt", "task__public_id", "asker", "answered_by_name")
    ordering = ("-id",)
    exclude = ("dedup_key", "content_hash", "draft_hash", "answer_key", "request_id", "asker_session")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Hold]:
        waited = ExpressionWrapper(Coalesce("answered_at", Now()) - F("asked_at"), output_field=DurationField())
        return super().get_queryset(request).annotate(waited=waited)

    @admin.display(description=_("asked about"))
    def subject(self, hold: Hold) -> str:
        return str(hold.task or (hold.visit and hold.visit.run) or "")

    @admin.display(description=_("answer"))
    def said(self, hold: Hold) -> str:
        return answer_of(hold)[:80]

    @admin.display(description=_("waited"), ordering="waited")
    def waited_for(self, hold: Any) -> str:
        seconds = int(hold.waited.total_seconds())
        days, rest = divmod(max(0, seconds), 86_400)
        return f"{days} d {rest // 3600} h" if days else f"{rest // 3600} h {rest % 3600 // 60} min"

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return super().get_actions(request) | {"export": (export, "export", _("Export as CSV"))}

    def view_on_site(self, obj: Hold) -> str:
        if obj.task:
            return reverse("web:task", args=[obj.board.slug, obj.task.public_id])
        assert obj.visit is not None  # a hold has exactly one subject (constraint)
        return reverse("web:run", args=[obj.visit.run.flow.key, obj.visit.run.number])

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("subject",)


def answer_of(hold: Hold) -> str:
    """The choice as people read it, or that a form was filled in."""
    answer = hold.answer or {}
    if "values" in answer:
        return _now("Filled in the form")
    return str(dict(people.choices_of(hold)).get(answer.get("choice", ""), answer.get("choice", "")))


def export(page: HoldPage, request: HttpRequest, holds: QuerySet[Hold]) -> StreamingHttpResponse:
    """The chosen questions as CSV, oldest first; no cell is a formula."""
    writer = csv.writer(_Line())
    rows = (writer.writerow(_cells(values)) for values in _values(page, holds))
    headers = {"Content-Disposition": 'attachment; filename="questions.csv"', "Cache-Control": "no-store"}
    return StreamingHttpResponse(rows, content_type="text/csv; charset=utf-8", headers=headers)


class _Line:
    """What `csv` writes to: it hands each line on."""

    def write(self, line: str) -> str:
        return line


def _values(page: HoldPage, holds: QuerySet[Hold]) -> Iterator[tuple[Any, ...]]:
    yield _COLUMNS
    for hold in holds.order_by("pk").iterator(chunk_size=500):
        whose = hold.assignee.display if hold.assignee else hold.assignee_role
        yield (
            *(hold.pk, hold.board.slug, page.subject(hold), hold.kind, hold.state, hold.title, hold.prompt),
            *(hold.asker, hold.asked_at.isoformat(), hold.due_at.isoformat() if hold.due_at else "", whose),
            *(answer_of(hold), (hold.answer or {}).get("text", ""), hold.answered_by_name),
            hold.answered_at.isoformat() if hold.answered_at else "",
            *(int(hold.waited.total_seconds()), hold.closed_reason),  # type: ignore[attr-defined]  # annotated
        )


def _cells(values: tuple[Any, ...]) -> list[str]:
    texts = [str(value).replace("\0", "") for value in values]
    return [f"'{text}" if text.startswith(_FORMULA) else text for text in texts]

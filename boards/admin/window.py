"""The base of the admin's pages on state: they show, and act by verbs; they never write a row (spec: 08 section 3)."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from boards.admin.acting import Act
from boards.models import Event, Member, Role, Space

EVENTS_SHOWN = 100


def spaces_of(request: HttpRequest) -> QuerySet[Space]:
    """The spaces whose rows this person may see here; what lies in others does not exist for them."""
    if request.user.is_superuser:
        return Space.objects.all()
    return Space.objects.filter(members__user=request.user.pk)


def operates(request: HttpRequest, space_id: int | None = None) -> bool:
    """Whether this person is an operator of the space, or of any."""
    roles = Member.objects.filter(user=request.user.pk, role=Role.OPERATOR)
    return roles.filter(space_id=space_id).exists() if space_id is not None else roles.exists()


class OfMySpaces(admin.RelatedFieldListFilter):
    """A filter by space, board or flow that names only those of the reader's spaces."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        path = "pk" if field.remote_field.model is Space else "space"
        mine = {f"{path}__in": spaces_of(request)}
        ordering = self.field_admin_ordering(field, request, model_admin)
        choices: list[tuple[str, Any]] = field.get_choices(
            include_blank=False, ordering=ordering, limit_choices_to=mine
        )
        return choices


class InMySpaces(admin.ModelAdmin):
    """Rows of the spaces that the reader is a member of; `space_path` leads from a row to its space."""

    space_path: ClassVar[str] = "space"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(**{f"{self.space_path}__in": spaces_of(request)})

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.admin_site.has_permission(request)


class Window(InMySpaces):
    """A read-only page; `acts` are done to rows of the list, each by its verb, in the name of who asks."""

    acts: ClassVar[tuple[Act, ...]] = ()
    event_field: ClassVar[str] = ""  # the field of Event that names such a row, where its events are shown
    change_form_template = "admin/boards/window.html"
    list_per_page = 100
    show_full_result_count = False  # a count over a million ended tasks that nobody reads

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_act_permission(self, request: HttpRequest) -> bool:
        return operates(request)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        if not self.acts or not self.has_act_permission(request):
            return {}
        return {act.name: (act.run, act.name, act.label) for act in self.acts}

    def space_id_of(self, row: Any) -> int:
        """The space of a row, along `space_path`."""
        for step in self.space_path.split("__"):
            row = getattr(row, step)
        return int(row.pk)

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:
        more = {"events": self._events(object_id) if self.event_field else []}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **more})

    def _events(self, object_id: str) -> list[Event]:
        if not object_id.isdecimal():
            return []
        rows = Event.objects.filter(**{self.event_field: object_id}).order_by("-id")[:EVENTS_SHOWN]
        return list(reversed(rows))

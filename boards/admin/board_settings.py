"""Boards and their rosters: settings, not state. Operators of the space edit them here, and each save is an event."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.core.exceptions import ValidationError
from django.db.models import CharField, JSONField
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from boards import actors, outbound, schemas
from boards.admin.window import InMySpaces, OfMySpaces, operates, spaces_of
from boards.errors import PartitionFixed
from boards.event_log import Entry, record
from boards.models import Board, Member, Role, RosterEntry, Task, User
from boards.states import LIVE
from boards.tasks import require_unfiled
from boards.workers.protocol import WORKERS

KINDS = [  # those that something of this version runs, or that need nothing to run them
    (kind.value, kind.label)
    for kind in (RosterEntry.Kind.PYTHON, RosterEntry.Kind.COMMAND, RosterEntry.Kind.PULL, RosterEntry.Kind.PERSON)
]


class RosterForm(forms.ModelForm):
    kind = forms.ChoiceField(choices=KINDS)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        config = given.get("config") or {}
        checks = {RosterEntry.Kind.PYTHON.value: _python_problem, RosterEntry.Kind.COMMAND.value: _command_problem}
        check = checks.get(given.get("kind", ""))
        problem = (check(config) if check else "") or _outlet_problem(config)
        if problem and {"kind", "config"} & set(self.changed_data):  # other settings can still be saved
            self.add_error("config", problem)
        if given.get("kind") == RosterEntry.Kind.PERSON and not given.get("user"):
            self.add_error("user", _now("Choose the person who works under this name."))
        given["config"] = config
        return given


def _python_problem(config: Any) -> str:
    name = config.get("worker") if isinstance(config, dict) else None
    if name in WORKERS:
        return ""
    return _now("Name a registered function, as in %(example)s. Registered are: %(known)s.") % {
        "example": json.dumps({"worker": next(iter(sorted(WORKERS)), "name")}),
        "known": ", ".join(sorted(WORKERS)) or _now("none"),
    }


def _command_problem(config: Any) -> str:
    argv = config.get("argv") if isinstance(config, dict) else None
    if isinstance(argv, list) and argv and all(isinstance(word, str) and word for word in argv):
        if config.get("messages", "stdin") != "stdin":
            return _now('Messages go to a program on standard input: {"messages": "stdin"}, or leave them out.')
        return ""
    return _now('Give the program and its arguments as a list of texts, as in {"argv": ["make", "notes"]}.')


def _outlet_problem(config: Any) -> str:
    """Where gate drafts of this name are sent to by the product itself, if anywhere."""
    outlet = config.get("outlet", "") if isinstance(config, dict) else ""
    if not outlet:
        return ""
    return outbound.problem(outlet) if isinstance(outlet, str) else _now("The outlet is one address, as a text.")


class RosterFormSet(BaseInlineFormSet):
    def clean(self) -> None:
        super().clean()
        space_id = self.instance.space_id
        for form in self.forms:
            given = getattr(form, "cleaned_data", {})
            user = given.get("user")
            if user and space_id and not Member.objects.filter(space=space_id, user=user).exists():
                form.add_error("user", _now("%(user)s is no member of this space.") % {"user": user.display})
            if given.get("DELETE"):
                _refuse_removal(form, self.instance)


def _refuse_removal(form: forms.ModelForm, board: Board) -> None:
    name = form.instance.name
    if count := Task.objects.filter(board=board.pk, assignee=name, status__in=LIVE).count():
        raise ValidationError(
            _now("%(count)d open tasks are assigned to %(name)s. Reassign or cancel them first.")
            % {"count": count, "name": name}
        )


class Roster(admin.TabularInline):
    model = RosterEntry
    form = RosterForm
    formset = RosterFormSet
    extra = 0
    verbose_name, verbose_name_plural = _("name on the roster"), _("roster")
    # Narrow enough that all of a row is seen beside the admin's own menu.
    formfield_overrides = {
        JSONField: {"widget": forms.Textarea(attrs={"rows": 2, "cols": 26})},
        CharField: {"widget": forms.TextInput(attrs={"size": 16})},
    }
    fields = ("name", "kind", "user", "config", "max_running", "filed_work_keeps_open", "position")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True  # with the board

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return operates(request, obj.space_id if obj else None)

    has_change_permission = has_delete_permission = has_add_permission

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        if db_field.name == "user":
            members = Member.objects.filter(space__in=spaces_of(request))
            options["queryset"] = User.objects.filter(pk__in=members.values("user"))
        return super().formfield_for_foreignkey(db_field, request, **options)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        """Accounts are made and changed on their own page, not in passing."""
        field = super().formfield_for_dbfield(db_field, request, **options)
        if field and isinstance(field.widget, RelatedFieldWidgetWrapper):
            field.widget = field.widget.widget
        return field


class BoardForm(forms.ModelForm):
    def clean_checker(self) -> str:
        checker: str = self.cleaned_data["checker"]
        names = set(self.instance.roster.values_list("name", flat=True)) if self.instance.pk else set()
        if checker not in {"none", "person", *names}:
            raise ValidationError(_("Write none, person, or a name of the roster."))
        return checker

    def clean_partition_by(self) -> str:
        chosen: str = self.cleaned_data["partition_by"]
        if self.instance.pk and "partition_by" in self.changed_data:
            try:
                require_unfiled(self.instance.pk)
            except PartitionFixed as refusal:
                raise ValidationError(refusal.sentence) from refusal
        return chosen

    def clean_input_schema(self) -> Any:
        return _schema(self.cleaned_data["input_schema"])

    def clean_output_schema(self) -> Any:
        return _schema(self.cleaned_data["output_schema"])

    def clean_default_worker(self) -> str:
        name: str = self.cleaned_data["default_worker"]
        if name and not (self.instance.pk and self.instance.roster.filter(name=name).exists()):
            raise ValidationError(_("That name is not on the roster of this board. Add it there first."))
        return name


def _schema(given: Any) -> Any:
    """The schema as it is kept; refused where it could judge nothing: otherwise each filing would be."""
    try:
        schemas.faults({} if given is None else given, {})
    except schemas.BadSchema as bad:
        raise ValidationError(str(bad)) from bad
    return given


@admin.register(Board)
class BoardPage(InMySpaces):
    form = BoardForm
    inlines = (Roster,)
    list_display = ("name", "slug", "space", "concurrency", "claim_order", "paused")
    list_filter = (("space", OfMySpaces), "paused")
    list_select_related = ("space",)
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}
    fieldsets = (
        (None, {"fields": ("space", "name", "slug")}),
        (
            _("How work is handed out"),
            {"fields": ("concurrency", "claim_order", "default_worker", "lease_ms", "retry_backoff_ms")},
        ),
        (_("Whose tasks are apart"), {"fields": ("partition_by",)}),
        (_("Who checks"), {"fields": ("checker", "send_back_spends_try", "max_send_backs")}),
        (_("Limits"), {"fields": ("max_enqueued_tasks", "max_total_tasks", "max_total_retries", "on_error")}),
        (_("Shapes of input and output"), {"fields": ("input_schema", "output_schema"), "classes": ("collapse",)}),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return operates(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return operates(request, obj.space_id if obj else None)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # its history is the record of the work

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("space", "slug") if obj else ()

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> dict[str, Any]:
        return {} if obj else super().get_prepopulated_fields(request, obj)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        if db_field.name == "space":
            options["queryset"] = spaces_of(request).filter(members__user=request.user.pk, members__role=Role.OPERATOR)
        return super().formfield_for_foreignkey(db_field, request, **options)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """After board and roster, in the same transaction: who changed which settings."""
        super().save_related(request, form, formsets, change)
        board = form.instance
        member = Member.objects.select_related("user", "space").get(space=board.space_id, user=request.user.pk)
        changed = [*form.changed_data, *(["roster"] if any(formset.has_changed() for formset in formsets) else [])]
        if changed:
            kind = "board.edited" if change else "board.made"
            record(Entry(kind, actors.person(member), board_id=board.pk, data={"fields": changed}))

    def view_on_site(self, obj: Board) -> str:
        return reverse("web:board", args=[obj.slug])

"""Who is in which space, with which role, and the people's accounts."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from boards import actors
from boards.admin.window import InMySpaces, OfMySpaces, operates, spaces_of
from boards.event_log import Entry, record
from boards.models import Member, Role, Space, User


def _is_last_operator(member: Member) -> bool:
    operators = Member.objects.filter(space=member.space_id, role=Role.OPERATOR)
    return operators.filter(pk=member.pk).exists() and operators.count() == 1


class MemberForm(forms.ModelForm):
    def clean_role(self) -> str:
        role: str = self.cleaned_data["role"]
        if self.instance.pk and role != Role.OPERATOR and _is_last_operator(self.instance):
            raise ValidationError(_("This is the space's last operator. Make somebody else one first."))
        return role


@admin.register(Member)
class MemberPage(InMySpaces):
    form = MemberForm
    list_display = ("user", "space", "role", "created_at")
    exclude = ("settle_s",)  # each member's own
    list_filter = ("role", ("space", OfMySpaces))
    list_select_related = ("user", "space")
    search_fields = ("user__username", "user__first_name", "user__last_name")
    actions = None  # one by one: the last operator of a space has to stay

    def has_add_permission(self, request: HttpRequest) -> bool:
        return operates(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return operates(request, obj.space_id if obj else None)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is not None and operates(request, obj.space_id) and not _is_last_operator(obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("space", "user") if obj else ()

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        if db_field.name == "space":
            options["queryset"] = spaces_of(request).filter(members__user=request.user.pk, members__role=Role.OPERATOR)
        return super().formfield_for_foreignkey(db_field, request, **options)

    def save_model(self, request: HttpRequest, obj: Member, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        _follow_role(obj.user)

    def delete_model(self, request: HttpRequest, obj: Member) -> None:
        user = obj.user
        super().delete_model(request, obj)
        _follow_role(user)


def _follow_role(user: User) -> None:
    """The admin is for operators of some space, and for nobody else."""
    operator = Member.objects.filter(user=user, role=Role.OPERATOR).exists()
    User.objects.filter(pk=user.pk).update(is_staff=user.is_superuser or operator)


@admin.register(User)
class UserPage(UserAdmin):
    """Accounts. A superuser changes them, since one account may be in several spaces; operators see their members."""

    list_display = ("username", "first_name", "last_name", "email", "is_active", "last_login")
    list_filter = ("is_active", "is_superuser")
    filter_horizontal = ()
    readonly_fields = ("is_staff", "last_login", "date_joined")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Person"), {"fields": ("first_name", "last_name", "email")}),
        (_("Rights"), {"fields": ("is_active", "is_superuser", "is_staff")}),
        (_("Dates"), {"fields": ("last_login", "date_joined")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or request.user.is_superuser:
            return fieldsets
        return ((None, {"fields": ("username",)}), *fieldsets[1:])

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        if request.user.is_superuser:
            return rows
        return rows.filter(pk__in=Member.objects.filter(space__in=spaces_of(request)).values("user"))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.admin_site.has_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # what a person did stays in the log; an account is made inactive


class SpaceForm(forms.ModelForm):
    """The settings of a space. An agent step that names no due time of its own takes the one given here."""

    agent_timeout_ms = forms.IntegerField(
        label=_("Due time of agent steps, in milliseconds"),
        help_text=_("For steps of flows that name none: 3600000 is an hour. Empty: such a step has no due time."),
        min_value=1_000,
        max_value=10 * 366 * 24 * 3600 * 1000,
        required=False,
    )


@admin.register(Space)
class SpacePage(InMySpaces):
    form = SpaceForm
    space_path = "pk"
    list_display = ("name", "slug", "created_at")
    fields = ("name", "slug", "agent_timeout_ms")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("slug",) if obj else ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return operates(request, obj.pk if obj else None)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Space, form: Any, change: bool) -> None:
        """Who makes a space is its first operator."""
        super().save_model(request, obj, form, change)
        user = cast(User, request.user)
        if not change:
            Member.objects.create(space=obj, user=user, role=Role.OPERATOR)
        if form.changed_data:
            member = Member.objects.select_related("user", "space").get(space=obj, user=user)
            kind = "space.edited" if change else "space.made"
            record(Entry(kind, actors.person(member), data={"fields": form.changed_data}))

"""Who was told of what, and how members want to be told; without addresses and keys, which are the members' own."""

from __future__ import annotations

from django.contrib import admin

from boards.admin.window import OfMySpaces, Window
from boards.models import Delivery, Preference


@admin.register(Delivery)
class DeliveryPage(Window):
    space_path = "member__space"
    list_display = ("title", "kind", "member", "channel", "state", "at", "sent_at")
    list_filter = ("state", "channel", "kind", ("member__space", OfMySpaces), "created_at")
    list_select_related = ("member__user", "member__space")
    search_fields = ("title", "member__user__username", "task__public_id")
    ordering = ("-id",)
    fields = ("title", "kind", "member", "channel", "state", "hold", "task", "run", "at", "created_at", "sent_at")


@admin.register(Preference)
class PreferencePage(Window):
    space_path = "member__space"
    list_display = ("member", "browser_since", "email_since", "webhook_since", "pace", "zone")
    list_filter = ("pace", ("member__space", OfMySpaces))
    list_select_related = ("member__user", "member__space")
    search_fields = ("member__user__username",)
    exclude = ("webhook_url", "webhook_secret", "tested_at")

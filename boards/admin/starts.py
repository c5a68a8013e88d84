"""Schedules, webhooks without their keys, and the events that wait for a step to take them."""

from __future__ import annotations

from django.contrib import admin

from boards.admin.window import OfMySpaces, Window
from boards.models import KeptEvent, Schedule, Webhook


@admin.register(Schedule)
class SchedulePage(Window):
    space_path = "flow__space"
    list_display = ("expression", "zone", "flow", "enabled", "next_at", "last_at", "author", "error")
    list_filter = ("enabled", ("flow", OfMySpaces))
    list_select_related = ("flow__space", "author")
    search_fields = ("flow__key", "expression")
    ordering = ("-id",)


@admin.register(Webhook)
class WebhookPage(Window):
    space_path = "flow__space"
    list_display = ("name", "flow", "kind", "enabled", "last_at", "author", "error")
    list_filter = ("kind", "enabled", ("flow", OfMySpaces))
    list_select_related = ("flow__space", "author")
    search_fields = ("name", "flow__key")
    ordering = ("-id",)
    exclude = ("secret", "old_secret")


@admin.register(KeptEvent)
class KeptEventPage(Window):
    space_path = "flow__space"
    list_display = ("key", "flow", "received_at", "taken_at", "webhook")
    list_filter = (("flow", OfMySpaces), "received_at")
    list_select_related = ("flow__space", "webhook")
    search_fields = ("key", "flow__key")
    ordering = ("-id",)

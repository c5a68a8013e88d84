"""All pages of the operators' site: importing this module registers them."""

from django.contrib import admin
from django.contrib.auth.models import Group

from boards.admin import board_settings, keys, ledger, people, runs, starts, tasks, telling, waiting

__all__ = ["board_settings", "keys", "ledger", "people", "runs", "starts", "tasks", "telling", "waiting"]

if admin.site.is_registered(Group):
    admin.site.unregister(Group)  # rights come from roles in a space

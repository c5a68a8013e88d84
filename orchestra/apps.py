"""Puts our admin site in the place of Django's."""

from importlib import import_module

from django.contrib.admin.apps import AdminConfig


class OrchestraAdminConfig(AdminConfig):
    default_site = "boards.admin.site.OrchestraAdminSite"

    def ready(self) -> None:
        super().ready()
        # Not found by Django's search: that imports `boards.admin` while it makes the site, which lies in there.
        import_module("boards.admin.pages")

"""The operators' site: who gets in, and that there is one sign-in for everything."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _


class OrchestraAdminSite(admin.AdminSite):
    site_header = _("Orchestra: operators")
    site_title = _("Orchestra")
    index_title = _("What an operator looks into")
    enable_nav_sidebar = True

    def has_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active and bool(getattr(request.user, "is_staff", False))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The product's own sign-in, which is throttled. To a member who is no operator this site does not exist."""
        if request.user.is_authenticated:
            raise Http404
        return redirect_to_login(request.GET.get("next", request.get_full_path()), settings.LOGIN_URL)

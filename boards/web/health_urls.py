"""Addresses of the health checks; `boards.web.urls` includes them."""

from django.urls import path

from boards.web import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]

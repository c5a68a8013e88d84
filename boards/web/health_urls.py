"""Addresses of the health checks and the metrics; `boards.web.urls` includes them."""

from django.urls import path

from boards.web import health, metrics

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
]

"""Address of the socket's helper; included by `boards.web.urls`."""

from django.urls import URLPattern, path

from boards.web import live_status

urlpatterns: list[URLPattern] = [path("live/status", live_status.live_status, name="live_status")]

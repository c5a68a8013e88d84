"""Addresses of what a member is told, and of the links in messages; included by `boards.web.urls`."""

from django.urls import URLPattern, path

from boards.web import agent_keys, told

urlpatterns: list[URLPattern] = [
    path("me/notifications/", told.notifications, name="notifications"),
    path("me/notifications/test/<slug:channel>", told.test_notification, name="test_notification"),
    path("me/address/", told.change_address, name="change_address"),
    path("me/address/<str:token>/", told.confirm_address, name="confirm_address"),
    path("me/keys/", agent_keys.agent_keys, name="agent_keys"),
    path("me/keys/<int:number>/<slug:verb>", agent_keys.agent_key_act, name="agent_key_act"),
    path("me/news/", told.news, name="news"),
    path("told/<str:token>/", told.told_link, name="told_link"),
]

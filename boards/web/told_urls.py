"""Addresses of what a member is told, and of the links in messages; included by `boards.web.urls`."""

from django.urls import URLPattern, path

from boards.web import told

urlpatterns: list[URLPattern] = [
    path("me/notifications/", told.notifications, name="notifications"),
    path("me/notifications/test/<slug:channel>", told.test_notification, name="test_notification"),
    path("me/address/", told.change_address, name="change_address"),
    path("me/address/<str:token>/", told.confirm_address, name="confirm_address"),
    path("me/news/", told.news, name="news"),
    path("told/<str:token>/", told.told_link, name="told_link"),
]

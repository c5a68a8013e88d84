"""Addresses of what starts a flow: its page, and where webhooks post to; included by `boards.web.urls`."""

from django.urls import URLPattern, path

from boards.web import flow_starts, hooks

urlpatterns: list[URLPattern] = [
    path("hooks/<str:public_id>", hooks.hook, name="hook"),
    path("f/<slug:key>/starts/", flow_starts.starts, name="flow_starts"),
    path("f/<slug:key>/starts/schedule/", flow_starts.schedule_form, name="new_schedule"),
    path("f/<slug:key>/starts/schedule/<int:number>/", flow_starts.schedule_form, name="schedule"),
    path("f/<slug:key>/starts/schedule/<int:number>/<slug:verb>", flow_starts.schedule_act, name="schedule_act"),
    path("f/<slug:key>/starts/webhook/<slug:kind>/", flow_starts.webhook_form, name="new_webhook"),
    path("f/<slug:key>/starts/webhook/<int:number>/change", flow_starts.webhook_form, name="webhook"),
    path("f/<slug:key>/starts/webhook/<int:number>/do/<slug:verb>", flow_starts.webhook_act, name="webhook_act"),
]

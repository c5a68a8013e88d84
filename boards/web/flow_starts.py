"""What starts a flow by itself: its page, the forms of schedules and webhooks, and the acts on them (spec: 05, 7).

The key of a webhook is shown once, on the page after it was made; every other reading leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from boards import flows, policy
from boards.actors import Chain
from boards.errors import Refusal
from boards.flows import ScheduleFields, WebhookFields
from boards.models import Flow, Schedule, Webhook
from boards.queries import catchup
from boards.queries.flow_starts import schedule_rows, webhook_rows
from boards.queries.runs import newest_inputs
from boards.queries.schema_fields import Field, fields_of
from boards.web.answers import acted, refused
from boards.web.flow_board import found_flow
from boards.web.inputs import read_inputs, told
from boards.web.members import MemberRequest, member_page

SHOWN_ONCE: Final = "webhook_secret"  # in the session: [the webhook's number, its key] until the next page
_MAP: Final = "map."


@never_cache
@require_safe
@member_page
def starts(request: MemberRequest, key: str) -> HttpResponse:
    """The page; for one that is open, what it lists. That reading leaves the key of a new webhook to the page."""
    flow = found_flow(request, key)
    cursor = catchup.cursor()
    number, secret = (None if request.htmx else request.session.pop(SHOWN_ONCE, None)) or (0, "")
    context = {
        "flow": flow,
        "cursor": cursor,
        "schedules": schedule_rows(flow),
        "webhooks": webhook_rows(flow, request.now),
        "may_edit": _may_edit(request),
        "hooks_at": _hooks_at(request),
        "new_secret": secret,
        "new_secret_of": number,
        "section": "flows",
    }
    return render(request, "flow/_starts.html" if request.htmx else "flow/starts.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def schedule_form(request: MemberRequest, key: str, number: int = 0) -> HttpResponse:
    """A new schedule (`number` 0) or one to change; a POST keeps it, or shows the form again with what is wrong."""
    flow = _editable(request, key)
    row = get_object_or_404(Schedule.objects.select_related("flow"), pk=number, flow=flow) if number else None
    asked = newest_inputs(flow)
    if request.method != "POST":
        shown = {"expression": row.expression, "zone": row.zone, "name_template": row.name_template} if row else {}
        fields = fields_of(asked.schema, row.inputs if row else None, asked.order)
        return _schedule_page(request, flow, row, {"zone": "UTC"} | shown, fields)
    form = request.POST
    filled = read_inputs(asked.schema, form, asked.order)
    fields, problem, field = filled.fields, filled.problem, ""
    if filled.ok:
        given = ScheduleFields(
            form.get("expression", ""), form.get("zone", ""), filled.values, form.get("name_template", "")
        )
        try:
            if row is None:
                flows.add_schedule(request.chain, flow, given)
            else:
                flows.change_schedule(request.chain, row, given)
        except Refusal as refusal:
            fields, problem = told(fields, refusal)
            field = str(refusal.facts.get("field", ""))
        else:
            return _kept(request, flow, _("The schedule is kept."))
    return _schedule_page(request, flow, row, form.dict(), fields, problem, field, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def webhook_form(request: MemberRequest, key: str, kind: str = "", number: int = 0) -> HttpResponse:
    """A new webhook of a kind, or one to change; after a new one its key is shown."""
    flow = _editable(request, key)
    row = get_object_or_404(Webhook.objects.select_related("flow"), pk=number, flow=flow) if number else None
    kind = row.kind if row else kind
    if kind not in Webhook.Kind.values:
        raise Http404("There is no such kind of webhook.")
    if request.method != "POST":
        return _webhook_page(request, flow, row, kind, _shown(row), _mapped(flow, row.mapping if row else None))
    form = request.POST
    mapping = {name.removeprefix(_MAP): str(text) for name, text in form.items() if name.startswith(_MAP)}
    given = WebhookFields(form.get("name", ""), mapping, form.get("name_template", ""), form.get("key", ""))
    try:
        if row is not None:
            flows.change_webhook(request.chain, row, given)
            return _kept(request, flow, _("The webhook is kept."))
        made, secret = flows.add_webhook(request.chain, flow, kind, given)
    except Refusal as refusal:
        fields, problem = told(_mapped(flow, mapping), refusal)
        field = str(refusal.facts.get("field", ""))
        return _webhook_page(request, flow, row, kind, form.dict(), fields, problem, field, status=422)
    return _shown_once(request, flow, made, secret)


@require_POST
@member_page
def schedule_act(request: MemberRequest, key: str, number: int, verb: str) -> HttpResponse:
    flow = found_flow(request, key)
    row = get_object_or_404(Schedule.objects.select_related("flow"), pk=number, flow=flow)
    return _act(request, flow, row, _SCHEDULE_ACTS.get(verb))


@require_POST
@member_page
def webhook_act(request: MemberRequest, key: str, number: int, verb: str) -> HttpResponse:
    """Pause, resume, remove; or a new key, which the next page shows."""
    flow = found_flow(request, key)
    row = get_object_or_404(Webhook.objects.select_related("flow"), pk=number, flow=flow)
    if verb != "rotate":
        return _act(request, flow, row, _WEBHOOK_ACTS.get(verb))
    try:
        secret = flows.rotate_secret(request.chain, row, keep_old="keep_old" in request.POST)
    except Refusal as refusal:
        return refused(request, refusal, back=_page_of(flow))
    return _shown_once(request, flow, row, secret)


Act = tuple[Callable[[Chain, Any], None], Callable[[], str]]
_SCHEDULE_ACTS: Final[Mapping[str, Act]] = {
    "pause": (flows.pause_schedule, lambda: _("The schedule is paused.")),
    "resume": (flows.resume_schedule, lambda: _("The schedule goes on, and acts for you.")),
    "remove": (flows.remove_schedule, lambda: _("The schedule is removed.")),
}
_WEBHOOK_ACTS: Final[Mapping[str, Act]] = {
    "pause": (flows.pause_webhook, lambda: _("The webhook is paused.")),
    "resume": (flows.resume_webhook, lambda: _("The webhook goes on, and acts for you.")),
    "remove": (flows.remove_webhook, lambda: _("The webhook is removed.")),
}


def _act(request: MemberRequest, flow: Flow, row: Schedule | Webhook, act: Act | None) -> HttpResponse:
    if act is None:
        raise Http404("There is no such act.")
    try:
        act[0](request.chain, row)
    except Refusal as refusal:
        return refused(request, refusal, back=_page_of(flow))
    return acted(request, act[1](), back=_page_of(flow))


def _editable(request: MemberRequest, key: str) -> Flow:
    """The flow; 404 for whoever may not edit flows, who is shown no way here."""
    flow = found_flow(request, key)
    if not _may_edit(request):
        raise Http404("There is no such page.")
    return flow


def _may_edit(request: MemberRequest) -> bool:
    return request.member.role in policy.ROLE_ACTIONS["flows.edit"]


def _page_of(flow: Flow) -> str:
    return resolve_url("web:flow_starts", flow.key)


def _kept(request: MemberRequest, flow: Flow, words: str) -> HttpResponseRedirect:
    messages.success(request, words)
    return redirect("web:flow_starts", flow.key)


def _shown_once(request: MemberRequest, flow: Flow, row: Webhook, secret: str) -> HttpResponseRedirect:
    request.session[SHOWN_ONCE] = [row.pk, secret]
    return redirect("web:flow_starts", flow.key)


def _hooks_at(request: MemberRequest) -> str:
    """What the address of every webhook begins with."""
    path = reverse("web:hook", args=["-"]).removesuffix("-")
    return settings.SITE_URL.rstrip("/") + path if settings.SITE_URL else request.build_absolute_uri(path)


def _shown(row: Webhook | None) -> dict[str, str]:
    if row is None:
        return {"key": "{{ payload.key }}"}
    return {"name": row.name, "name_template": row.name_template, "key": row.key}


def _mapped(flow: Flow, mapping: Mapping[str, str] | None) -> tuple[Field, ...]:
    """A template for each input of the flow; of a new webhook, what is needed is looked for under its own name."""
    asked = newest_inputs(flow)
    fields = fields_of(asked.schema, order=asked.order)
    first = {field.name: f"{{{{ payload.{field.name} }}}}" for field in fields if field.required}
    given = first if mapping is None else mapping
    return tuple(replace(field, value=str(given.get(field.name, "")), error="") for field in fields)


def _schedule_page(
    request: MemberRequest,
    flow: Flow,
    row: Schedule | None,
    shown: Mapping[str, Any],
    fields: tuple[Field, ...],
    problem: str = "",
    wrong_field: str = "",
    status: int = 200,
) -> HttpResponse:
    zones = sorted({"UTC", str(shown.get("zone", "UTC")), *(zone for zone in available_timezones() if "/" in zone)})
    context = {
        "flow": flow,
        "row": row,
        "shown": shown,
        "fields": fields,
        "problem": problem,
        "wrong_field": wrong_field,
        "zones": zones,
        "section": "flows",
    }
    return render(request, "flow/schedule.html", context, status=status)


def _webhook_page(
    request: MemberRequest,
    flow: Flow,
    row: Webhook | None,
    kind: str,
    shown: Mapping[str, Any],
    fields: tuple[Field, ...],
    problem: str = "",
    wrong_field: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        "flow": flow,
        "row": row,
        "is_event": kind == Webhook.Kind.EVENT,
        "shown": shown,
        "fields": fields,
        "problem": problem,
        "wrong_field": wrong_field,
        "section": "flows",
    }
    return render(request, "flow/webhook.html", context, status=status)

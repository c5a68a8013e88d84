"""Flows: the list, the list of one flow's runs, and starting a run (spec: 05 section 7, 08 "Flows")."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect, trigger_client_event

from boards import flows as engine
from boards.errors import Refusal
from boards.models import Flow, FlowRun
from boards.queries import catchup
from boards.queries.flow_board import FlowBoard
from boards.queries.flows import flow_cards, flow_page
from boards.queries.runs import newest_inputs
from boards.web.answers import with_toast
from boards.web.flow_board import CHANGED, board_context, found_flow
from boards.web.inputs import read_inputs, told
from boards.web.members import MemberRequest, member_page


@require_safe
@member_page
def flows(request: MemberRequest) -> HttpResponse:
    template = "flow/_cards.html" if request.htmx else "flow/list.html"
    cursor = catchup.cursor()
    return render(request, template, {"cards": flow_cards(request.member), "section": "flows", "cursor": cursor})


@require_safe
@member_page
def flow_runs(request: MemberRequest, key: str) -> HttpResponse:
    """Every run of the flow as a list; for a page that has it the table alone, or with `before` its next page."""
    context = _context(request, found_flow(request, key))
    if not request.htmx:
        return render(request, "flow/runs.html", context)
    return render(request, "flow/_more.html" if request.GET.get("before") else "flow/_runs.html", context)


@require_POST
@member_page
def start_flow(request: MemberRequest, key: str) -> HttpResponse:
    """Start a run and go to its page, or stay on a board of cards; the form again where the inputs do not fit."""
    found = found_flow(request, key)
    asked = newest_inputs(found)
    filled = read_inputs(asked.schema, request.POST, asked.order)
    fields, problem = filled.fields, filled.problem
    if filled.ok:
        try:
            made = engine.start(
                request.chain,
                found,
                filled.values,
                request.POST.get("run_name", "").strip(),
                step=request.POST.get("step", ""),
                idempotency_key=request.POST.get("key", ""),
            )
        except Refusal as refusal:
            fields, problem = told(filled.fields, refusal)
        else:
            return _started(request, found, made)
    typed = {"fields": fields, "problem": problem, "typed": request.POST}
    context = board_context(request, found) | typed | {"start_step": request.POST.get("step", "")}
    return render(request, "flow/_start.html" if request.htmx else "flow/board.html", context, status=422)


def _started(request: MemberRequest, found: Flow, made: FlowRun) -> HttpResponse:
    """Who starts a pipeline wants to see it run; who files a card on a board goes on filing."""
    to = resolve_url("web:run", found.key, made.number)
    if not request.htmx:
        return redirect(to)
    context = board_context(request, found)
    if context["page"].style != Flow.Style.BOARD:
        return HttpResponseClientRedirect(to)
    response = render(request, "flow/_start.html", context)
    with_toast(response, _start_words(made, context["page"]), href=to, link=_("Open"))
    return trigger_client_event(response, CHANGED)


def _start_words(made: FlowRun, page: FlowBoard) -> str:
    if not made.queued_step:
        return _("%(name)s started.") % {"name": made.name}
    step = next((column.name for column in page.columns if column.key == made.queued_step), made.queued_step)
    return _("%(name)s is queued for %(step)s, which is full.") % {"name": made.name, "step": step}


def _context(request: MemberRequest, found: Flow) -> dict[str, Any]:
    cursor = catchup.cursor()
    before = request.GET.get("before", "")
    is_number = before.isascii() and before.isdigit() and len(before) < 19
    page = flow_page(found, before=int(before) if is_number else 0)
    return {"page": page, "flow": found, "section": "flows", "cursor": cursor}

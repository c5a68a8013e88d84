"""Flows: the list, one flow with its runs, and starting a run (spec: 05 section 7, 08 "Flows")."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from boards import flows as engine
from boards import policy
from boards.errors import Refusal
from boards.models import Flow
from boards.queries import catchup
from boards.queries.flows import find_flow, flow_cards, flow_page
from boards.queries.runs import newest_inputs
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
def flow(request: MemberRequest, key: str) -> HttpResponse:
    """The flow's steps, its runs, and the form that starts one."""
    return render(request, "flow/page.html", _context(request, _found(request, key)))


@require_safe
@member_page
def flow_runs(request: MemberRequest, key: str) -> HttpResponse:
    """The table of runs alone, or with `before` its next page."""
    context = _context(request, _found(request, key))
    return render(request, "flow/_more.html" if request.GET.get("before") else "flow/_runs.html", context)


@require_POST
@member_page
def start_flow(request: MemberRequest, key: str) -> HttpResponse:
    """Start a run and go to its page; the form again, with a sentence per field, where the inputs do not fit."""
    found = _found(request, key)
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
                idempotency_key=request.POST.get("key", ""),
            )
        except Refusal as refusal:
            fields, problem = told(filled.fields, refusal)
        else:
            to = resolve_url("web:run", found.key, made.number)
            return HttpResponseClientRedirect(to) if request.htmx else redirect(to)
    context = _context(request, found) | {"fields": fields, "problem": problem, "typed": request.POST}
    return render(request, "flow/_start.html" if request.htmx else "flow/page.html", context, status=422)


def _found(request: MemberRequest, key: str) -> Flow:
    found = find_flow(request.member, key)
    if found is None:
        raise Http404("There is no such flow.")
    return found


def _context(request: MemberRequest, found: Flow) -> dict[str, Any]:
    cursor = catchup.cursor()
    before = request.GET.get("before", "")
    is_number = before.isascii() and before.isdigit() and len(before) < 19
    page = flow_page(found, before=int(before) if is_number else 0)
    return {
        "page": page,
        "flow": found,
        "fields": page.fields,
        "may_start": request.member.role in policy.ROLE_ACTIONS["flows.start"],
        "start_key": uuid.uuid4().hex,
        "section": "flows",
        "cursor": cursor,
    }

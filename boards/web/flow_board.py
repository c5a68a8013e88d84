"""A flow's board: runs as cards in step columns, their menu, and the verbs on one or many (spec: 08 "Flow board").

An act is one POST with the runs that it is for, and is answered with a result for each. What a member may not see
answers 404.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from boards import flows, policy
from boards.flows import RunResult
from boards.models import Flow, FlowRun
from boards.queries import catchup
from boards.queries.flow_board import FlowBoard, flow_board
from boards.queries.flow_filter import RunFilter
from boards.queries.flow_moves import find_runs, line_number, moves_of, place_key
from boards.queries.flows import find_flow
from boards.web.answers import with_toast
from boards.web.members import MemberRequest, member_page

CHANGED: Final = "flow:changed"  # static/js/flow_live.js reads the columns again
MOST: Final = 500  # runs in one act

Act = Callable[[MemberRequest, FlowRun], FlowRun]


@require_safe
@member_page
def board(request: MemberRequest, key: str) -> HttpResponse:
    return render(request, "flow/board.html", board_context(request, found_flow(request, key)))


@require_safe
@member_page
def board_columns(request: MemberRequest, key: str) -> HttpResponse:
    """The columns alone, to be put into the page card by card."""
    return render(request, "flow/_columns.html", board_context(request, found_flow(request, key)))


@require_safe
@member_page
def menu(request: MemberRequest, key: str) -> HttpResponse:
    """Where the chosen runs may go and what else may be done to them: a menu, or a page where there is no script."""
    flow = found_flow(request, key)
    runs = find_runs(flow, request.GET.getlist("run")[:MOST])
    if not runs:
        raise Http404("There is no such run.")
    template = "flow/_menu.html" if request.htmx else "flow/menu.html"
    return render(request, template, _menu_context(request, flow, runs))


@require_POST
@member_page
def act(request: MemberRequest, key: str, verb: str) -> HttpResponse:
    """Do `verb` to each of the runs named, and say what came of it."""
    flow, does = found_flow(request, key), VERBS.get(verb)
    if does is None:
        raise Http404
    runs = find_runs(flow, request.POST.getlist("run")[:MOST])
    if not runs:
        raise Http404("There is no such run.")
    results = flows.for_each(runs, lambda run: does(request, run))
    return _answer(request, flow, verb, results)


def _move(request: MemberRequest, run: FlowRun) -> FlowRun:
    """`step`, or within its own column `to` (first or last); `before`: the number of the run that it goes before, or
    0 for the last place; `visit.NUMBER`: the stay that the page showed.
    """
    form = request.POST
    seen, before, to = form.get(f"visit.{run.number}", ""), form.get("before", ""), form.get("to", "")
    return flows.move(
        request.chain,
        run,
        form.get("here" if to else "step", ""),
        cancel_turn=bool(form.get("cancel_turn")),
        visit_id=_number(seen) if seen else None,
        before=place_key(run, before, to) if before or to else None,
    )


VERBS: Final[Mapping[str, Act]] = {
    "move": _move,
    "archive": lambda request, run: flows.archive(request.chain, run),
    "unarchive": lambda request, run: flows.unarchive(request.chain, run),
    "cancel": lambda request, run: flows.cancel_run(request.chain, run, request.POST.get("reason", "")),
}


def _answer(request: MemberRequest, flow: Flow, verb: str, results: list[RunResult]) -> HttpResponse:
    """A toast where all is said with it; else a list with a line for each run, and what may be done instead."""
    refused = [result for result in results if not result.done]
    sentence = _sentence(verb, results)
    if not request.htmx and not refused:
        return _back(request, flow, sentence)
    if request.htmx and (not refused or (len(results) == 1 and not refused[0].offer)):
        response = HttpResponse(status=204 if not refused else refused[0].status)
        with_toast(response, sentence if not refused else refused[0].refusal, "error" if refused else "ok")
        return trigger_client_event(response, CHANGED)
    context = {
        "flow": flow,
        "verb": verb,
        "results": results,
        "done": [result for result in results if result.done],
        "offered": [result for result in refused if result.offer],
        "step": request.POST.get("step", ""),
        "before": request.POST.get("before", ""),
        "sentence": sentence,
        "section": "flows",
    }
    response = render(request, "flow/_results.html" if request.htmx else "flow/results.html", context)
    return trigger_client_event(response, CHANGED) if request.htmx else response


def _back(request: MemberRequest, flow: Flow, sentence: str) -> HttpResponse:
    messages.success(request, sentence)
    return redirect(resolve_url("web:flow", flow.key))


def _sentence(verb: str, results: list[RunResult]) -> str:
    """What was done, in words."""
    done = [result.run for result in results if result.done]
    if verb == "move" and len(done) == 1 and done[0].queued_step:
        told = {"name": done[0].name, "number": line_number(done[0])}
        return _("%(name)s waits for a place, as number %(number)s in line.") % told
    if len(done) == 1:
        return _ONE[verb]() % {"name": done[0].name}
    return _MANY[verb](len(done)) % {"count": len(done)} + _in_line(verb, done)


def _in_line(verb: str, done: list[FlowRun]) -> str:
    waiting = sum(1 for run in done if run.queued_step)
    if verb != "move" or not waiting:
        return ""
    told = ngettext("%(count)s of them waits for a place.", "%(count)s of them wait for a place.", waiting)
    return " " + told % {"count": waiting}


_ONE: Final[Mapping[str, Callable[[], str]]] = {
    "move": lambda: _("%(name)s moved."),
    "archive": lambda: _("%(name)s is in the archive."),
    "unarchive": lambda: _("%(name)s is out of the archive."),
    "cancel": lambda: _("%(name)s cancelled."),
}
_MANY: Final[Mapping[str, Callable[[int], str]]] = {
    "move": lambda n: ngettext("%(count)s run moved.", "%(count)s runs moved.", n),
    "archive": lambda n: ngettext("%(count)s run archived.", "%(count)s runs archived.", n),
    "unarchive": lambda n: ngettext("%(count)s run taken out.", "%(count)s runs taken out.", n),
    "cancel": lambda n: ngettext("%(count)s run cancelled.", "%(count)s runs cancelled.", n),
}


def found_flow(request: MemberRequest, key: str) -> Flow:
    found = find_flow(request.member, key)
    if found is None:
        raise Http404("There is no such flow.")
    return found


def board_context(request: MemberRequest, flow: Flow) -> dict[str, Any]:
    """What the board's page and its columns show. Its filter and lengths stand in the address."""
    cursor = catchup.cursor()
    filters = RunFilter.from_query(request.GET.dict(), request.member.user_id)
    page: FlowBoard = flow_board(flow, filters, _lengths(request))
    step = request.GET.get("step", "")
    return {
        "page": page,
        "flow": flow,
        "filters": filters,
        "fields": page.fields,
        "may_start": request.member.role in policy.ROLE_ACTIONS["flows.start"],
        "start_key": uuid.uuid4().hex,
        "start_step": step if any(column.key == step for column in page.starts) else page.first,
        "section": "flows",
        "cursor": cursor,
    }


def _lengths(request: MemberRequest) -> dict[str, int]:
    """`n.KEY=62`: how many cards of a column the page shows by now."""
    asked = {
        name.removeprefix("n."): _number(str(told))
        for name, told in request.GET.dict().items()
        if name.startswith("n.")
    }
    return {key: number for key, number in asked.items() if number}


def _menu_context(request: MemberRequest, flow: Flow, runs: list[FlowRun]) -> dict[str, Any]:
    return {
        "flow": flow,
        "runs": runs,
        "run": runs[0] if len(runs) == 1 else None,
        "moves": moves_of(flow, runs),
        "may_act": request.member.role in policy.ROLE_ACTIONS["flows.move"],
        "archived": [run for run in runs if run.archived_at],
        "current": [run for run in runs if not run.archived_at],
        "open": [run for run in runs if run.status in ("active", "failed")],
        "section": "flows",
    }


def _number(given: str) -> int:
    """A whole number; 0 for anything else."""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else 0

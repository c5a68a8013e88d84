"""The page of one flow run, its live parts, its transcript, and its acts (spec: 05, 08 "Run page").

An act is one POST and one verb of the flow engine, answered in words; what a member may not see answers 404.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect, trigger_client_event

from boards import flows
from boards.actors import Chain
from boards.errors import InvalidInput, Refusal
from boards.models import FlowRun
from boards.queries import catchup
from boards.queries.runs import find_run, log_of, newest_inputs, run_page
from boards.web.answers import acted, refused
from boards.web.inputs import read_inputs, read_json, told
from boards.web.members import MemberRequest, member_page

MAX_SPAN: Final = 9_999  # of any unit
CHANGED: Final = "run:changed"  # static/js/run.js reads the parts of the page again

Verb = Callable[[Chain, FlowRun, QueryDict], str]


@require_safe
@member_page
def run(request: MemberRequest, key: str, number: int) -> HttpResponse:
    return render(request, "run/page.html", _context(request, _found(request, key, number)))


@require_safe
@member_page
def run_parts(request: MemberRequest, key: str, number: int) -> HttpResponse:
    """Every live part but the transcript, to be swapped in by its id; questions are put in by key."""
    return render(request, "run/_parts.html", _context(request, _found(request, key, number)) | {"oob": True})


@require_safe
@member_page
def run_log(request: MemberRequest, key: str, number: int) -> HttpResponse:
    """What is newer than `after` (204 where the page has it all), the page `before`, or the panel of one `step`."""
    found = _found(request, key, number)
    step, after, before = request.GET.get("step", ""), _number(request, "after"), _number(request, "before")
    context: dict[str, Any] = {"run": found, "step": step}
    if "have" in request.GET:
        log = log_of(found, step, after=after)
        if not log.settled and len(log.tail) == _number(request, "have"):
            return HttpResponse(status=204)
        return render(request, "run/_log_tail.html", context | {"log": log})
    if before:
        return render(request, "run/_log_page.html", context | {"log": log_of(found, step, before=before)})
    page = run_page(found, request.member, step=step)
    return render(request, "run/_log.html", context | {"page": page, "log": page.log})


@require_POST
@member_page
def run_act(request: MemberRequest, key: str, number: int, verb: str) -> HttpResponse:
    """Do `verb` on the run and say so."""
    found = _found(request, key, number)
    if verb == "start_again":
        return _start_again(request, found)
    act = VERBS.get(verb)
    if act is None:
        raise Http404
    back = resolve_url("web:run", key, number)
    try:
        sentence = act(request.chain, found, request.POST)
    except Refusal as refusal:
        return refused(request, refusal, back=back)
    response = acted(request, sentence, back=back)
    return trigger_client_event(response, CHANGED) if request.htmx else response


def _start_again(request: MemberRequest, found: FlowRun) -> HttpResponse:
    """A new run with the inputs as changed; the page again, with a sentence per field, where they do not fit."""
    asked = newest_inputs(found.flow)
    filled = read_inputs(asked.schema, request.POST, asked.order)
    fields, problem = filled.fields, filled.problem
    if filled.ok:
        try:
            made = flows.start_again(request.chain, found, filled.values, idempotency_key=request.POST.get("key", ""))
        except Refusal as refusal:
            fields, problem = told(filled.fields, refusal)
        else:
            to = resolve_url("web:run", found.flow.key, made.number)
            return HttpResponseClientRedirect(to) if request.htmx else redirect(to)
    context = {"fields": fields, "problem": problem}
    if request.htmx:
        return render(request, "run/_again.html", _context(request, found) | context, status=422)
    return render(request, "run/page.html", _context(request, found) | context, status=422)


def _mark_complete(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    flows.mark_complete(chain, found, visit_id=_visit(form))
    return _("Marked complete.")


def _run_again(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    flows.run_again(chain, found, visit_id=_visit(form))
    return _("The step runs again.")


def _skip(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    flows.skip_step(chain, found, form.get("reason", ""), visit_id=_visit(form))
    return _("The step is skipped.")


def _complete_by_hand(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    """A JSON object is taken as such, anything else as text."""
    told = form.get("output", "").strip()
    if not told:
        raise InvalidInput(_("Say what the step hands in."), field="output")
    output: Any = {"text": told}
    if told.startswith("{"):
        try:
            output = read_json(told, None)
        except ValueError as error:
            raise InvalidInput(str(error), field="output") from error
    flows.complete_by_hand(chain, found, output, visit_id=_visit(form))
    return _("The step is complete.")


def _run_from(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    flows.run_from(chain, found, form.get("step", ""), visit_id=_visit(form))
    return _("The run goes on from there.")


def _move(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    cancels = form.get("cancel_turn", "") == "yes"
    flows.move(chain, found, form.get("step", ""), visit_id=_visit(form), cancel_turn=cancels)
    return _("Moved.")


def _cancel_turn(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    outcome = flows.cancel_turn(chain, found)
    if outcome.landed:
        return _("Turn cancelled.")
    if found.current_visit and flows.awaits_stop(found.current_visit):
        return _("The turn is being stopped already.")
    return _("The turn had ended already.")


def _cancel_run(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    flows.cancel_run(chain, found, form.get("reason", ""))
    return _("Run cancelled.")


def _archive(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    flows.archive(chain, found)
    return _("The run is in the archive.")


def _message(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    if flows.message(chain, found, form.get("message", "")) == flows.TURN_STARTED:
        return _("Sent. The run's next turn begins with it.")
    return _("Sent. Whoever works on it reads it at the next look.")


def _unarchive(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    flows.unarchive(chain, found)
    return _("The run is out of the archive.")


_UNITS: Final = {"minutes": 60, "hours": 3600, "days": 86_400}


def _move_due_time(chain: Chain, found: FlowRun, form: QueryDict) -> str:
    """So long from now, by the database's clock: no zone has to be known for that."""
    given, unit = form.get("span", ""), _UNITS.get(form.get("unit", ""))
    if unit is None or not (given.isascii() and given.isdigit() and len(given) < 10) or not 0 < int(given) <= MAX_SPAN:
        raise InvalidInput(_("Say in how many minutes, hours or days it is due."), field="span")
    to = found.db_now + timedelta(seconds=int(given) * unit)  # type: ignore[attr-defined]
    flows.move_due_time(chain, found, to, form.get("reason", ""), visit_id=_visit(form))
    return _("The due time was moved.")


VERBS: Final[Mapping[str, Verb]] = {
    "archive": _archive,
    "message": _message,
    "unarchive": _unarchive,
    "mark_complete": _mark_complete,
    "run_again": _run_again,
    "complete_by_hand": _complete_by_hand,
    "skip": _skip,
    "run_from": _run_from,
    "move": _move,
    "move_due_time": _move_due_time,
    "cancel_turn": _cancel_turn,
    "cancel_run": _cancel_run,
}


def _visit(form: QueryDict) -> int | None:
    """The stay that the page showed, so that an act on an older one is refused; None from a list."""
    given = form.get("visit", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None


def _found(request: MemberRequest, key: str, number: int) -> FlowRun:
    found = find_run(request.member, key, number)
    if found is None:
        raise Http404("There is no such run.")
    return found


def _context(request: MemberRequest, found: FlowRun) -> dict[str, Any]:
    cursor = catchup.cursor()
    page = run_page(found, request.member, step=request.GET.get("step", "")[:80])
    again = page.act["start_again"]
    return {
        "page": page,
        "run": found,
        "flow": found.flow,
        "act": page.act,
        "log": page.log,
        "step": page.step_filter,
        "fields": newest_inputs(found.flow).fields(found.inputs) if again.allowed else (),
        "next": resolve_url("web:run", found.flow.key, found.number),
        "start_key": uuid.uuid4().hex,
        "section": "flows",
        "cursor": cursor,
    }


def _number(request: MemberRequest, name: str) -> int:
    """A whole number of the query string; 0 for none and for anything else."""
    given = request.GET.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else 0

"""Answering a question from any page: one POST, one verb, one answer in words (spec: 04 section 2).

A GET never decides. A refusal leaves the form as it stands, with the sentence in it and every word that was typed.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import reswap, retarget

from boards import people
from boards.errors import AlreadyAnswered, DraftChanged, InvalidInput, Refusal
from boards.models import Hold
from boards.queries import asks
from boards.queries.asks import AskView
from boards.web.answers import with_toast
from boards.web.inputs import read_inputs, read_json
from boards.web.members import MemberRequest, member_page, safe_next


@require_safe
@member_page
def hold(request: MemberRequest, hold_id: int) -> HttpResponse:
    """One question on a page of its own; for a fragment's request what became of it, or 204 while it is open."""
    ask = _found(request, hold_id)
    if not request.htmx:
        return render(request, "hold/page.html", {"ask": ask, "section": "needs"})
    if ask.is_open:
        return HttpResponse(status=204)
    return render(request, "hold/_late.html", {"ask": ask, "problem": _("This was closed while you were here.")})


@require_POST
@member_page
def answer_hold(request: MemberRequest, hold_id: int) -> HttpResponse:
    """Answer it. Refusals: 409 answered already or the draft changed, 422 what is missing, 403, 404."""
    seen = _found(request, hold_id)
    form = request.POST
    try:
        closed = people.answer_hold(
            request.chain,
            hold_id,
            choice=form.get("choice", ""),
            text=form.get("text", ""),
            values=_values(seen, request),
            shown_hash=form.get("shown_hash", ""),
            idempotency_key=form.get("key", ""),
        )
    except Refusal as refusal:
        return _not_taken(request, hold_id, refusal)
    return _taken(request, closed)


@require_POST
@member_page
def dismiss_hold(request: MemberRequest, hold_id: int) -> HttpResponse:
    """End the question without an answer; what asked it goes on and is told so."""
    _found(request, hold_id)
    try:
        closed = people.dismiss_hold(request.chain, hold_id)
    except Refusal as refusal:
        return _not_taken(request, hold_id, refusal)
    return _taken(request, closed)


def _found(request: MemberRequest, hold_id: int) -> AskView:
    found = asks.ask(request.member, hold_id)
    if found is None:
        raise Http404("There is no such question.")
    return found


def _values(seen: AskView, request: MemberRequest) -> dict[str, Any] | None:
    if seen.hold.kind != "input":
        return None
    try:
        if not seen.fields:
            return read_json(request.POST.get("values", ""), seen.hold.schema)
    except ValueError as error:
        raise InvalidInput(str(error), field="values") from error
    filled = read_inputs(seen.hold.schema, request.POST)
    wrong = next((field for field in filled.fields if field.error), None)
    if wrong or filled.problem:
        raise InvalidInput(f"{wrong.label}: {wrong.error}" if wrong else filled.problem, field="values")
    return filled.values


def _taken(request: MemberRequest, closed: Hold) -> HttpResponse:
    ask = _found(request, closed.pk)
    if ask.is_open:  # several persons decide it, and this one has had a say
        return _voted(request, ask)
    sentence = f"{_done_word(closed)}: “{ask.heading[:80]}”"
    if not request.htmx:
        messages.success(request, sentence)
        return redirect(safe_next(request, request.POST.get("next", ""), resolve_url("web:needs_you")))
    if request.POST.get("from") == "list":
        response = reswap(retarget(HttpResponse(), f"#row-hold-{closed.pk}"), "delete")
    else:
        shown = render(request, "hold/_answered.html", {"ask": ask, "named": True})
        response = reswap(retarget(shown, f"#ask-{closed.pk}"), "outerHTML")
    return with_toast(response, sentence)


def _voted(request: MemberRequest, ask: AskView) -> HttpResponse:
    """The form again with the votes so far; a person may think again until it is decided."""
    sentence = _("Your answer counts. %(votes)s") % {"votes": ask.votes}
    if not request.htmx:
        messages.success(request, sentence)
        return redirect(safe_next(request, request.POST.get("next", ""), resolve_url("web:needs_you")))
    level = 3 if request.POST.get("from") == "list" else 2
    context = {
        "ask": ask,
        "from": request.POST.get("from", "page"),
        "next": request.POST.get("next", ""),
        "level": level,
    }
    shown = render(request, "hold/_form.html", context)
    return with_toast(reswap(retarget(shown, f"#ask-form-{ask.hold.pk}"), "outerHTML"), sentence)


def _not_taken(request: MemberRequest, hold_id: int, refusal: Refusal) -> HttpResponse:
    """The sentence in place of the form's own, with what was typed kept; a whole page where there is no htmx."""
    ask = _found(request, hold_id)
    context = {
        "ask": ask,
        "problem": refusal.sentence,
        "typed": request.POST,
        "from": request.POST.get("from", "page"),
        "next": request.POST.get("next", ""),
        "section": "needs",
        "level": 3 if request.POST.get("from") == "list" else 2,
    }
    if not request.htmx:
        return render(request, "hold/page.html", context, status=refusal.http_status)
    if isinstance(refusal, AlreadyAnswered) and not ask.is_open:
        return render(request, "hold/_late.html", context, status=refusal.http_status)
    if isinstance(refusal, DraftChanged) and ask.is_open:
        fresh = render(request, "hold/_form.html", context, status=refusal.http_status)
        return reswap(retarget(fresh, f"#ask-form-{hold_id}"), "outerHTML")
    return render(request, "hold/_problem.html", context, status=refusal.http_status)


def _done_word(closed: Hold) -> str:
    if closed.state == "discarded":
        return _("Dismissed")
    words = {
        "approve": _("Approved"),
        "reject": _("Rejected"),
        "request_changes": _("Changes requested"),
        "send": _("Sent"),
        "discard": _("Discarded"),
    }
    return words.get(str((closed.answer or {}).get("choice", "")), _("Answered"))

"""The board page: lanes and cards, filters, the next page of a lane, presence, pause (spec: 08 section 2)."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from boards import tasks
from boards.errors import BoardNotFound, Refusal
from boards.queries.board import BoardFacts, board_facts, board_page, lane_page
from boards.queries.filters import NOBODY, BoardFilter
from boards.queries.lanes import PAGE, lane_counts
from boards.states import Status
from boards.web.answers import acted, refused
from boards.web.members import MemberRequest, member_page


@require_safe
@member_page
def board(request: MemberRequest, slug: str) -> HttpResponse:
    """The page; for a fragment's request its lanes alone, or with `lane` and `after` the next cards of one lane."""
    facts = found_board(request, slug)
    filters = BoardFilter.from_query(request.GET.dict(), request.member.user_id).within(own_partition(request, facts))
    if request.htmx and request.GET.get("after"):
        return _more(request, facts, filters)
    context = {
        "page": board_page(facts, filters),
        "facts": facts,
        "board": facts.board,
        "filters": filters,
        "nobody": NOBODY,
        "section": "boards",
    }
    is_part = request.htmx and not request.htmx.history_restore_request
    return render(request, "board/_lanes.html" if is_part else "board/board.html", context)


@require_safe
@member_page
def presence(request: MemberRequest, slug: str) -> HttpResponse:
    """Agents and drains alone: they beat without any task being changed."""
    facts = found_board(request, slug)
    return render(request, "board/_presence.html", {"facts": facts, "board": facts.board})


@require_POST
@member_page
def pause_board(request: MemberRequest, slug: str) -> HttpResponse:
    """Pause or resume (`paused` = 1 or 0)."""
    facts = found_board(request, slug)
    back = resolve_url("web:board", slug)
    paused = request.POST.get("paused") == "1"
    try:
        tasks.set_paused(request.chain, facts.board, paused)
    except Refusal as refusal:
        return refused(request, refusal, back=back)
    done = _("Paused: nothing new starts, what runs goes on.") if paused else _("Resumed.")
    response = acted(request, done, back=back)
    if request.htmx:
        facts.board.paused = paused
        told = render(request, "board/_pause.html", {"board": facts.board})
        told["HX-Trigger"] = response["HX-Trigger"]
        return told
    return response


def found_board(request: MemberRequest, slug: str) -> BoardFacts:
    """The board of the member's space, or 404."""
    try:
        return board_facts(request.member.space_id, slug)
    except BoardNotFound as absent:
        raise Http404(absent.sentence) from absent


def own_partition(request: MemberRequest, facts: BoardFacts) -> str:
    """The one partition of the board that the reader's pages show; "" where it has none."""
    return tasks.partition_of(request.chain, facts.board)


def _more(request: MemberRequest, facts: BoardFacts, filters: BoardFilter) -> HttpResponse:
    status = request.GET.get("lane", "")
    if status not in Status.values:
        raise Http404
    cards = lane_page(facts, filters, status, request.GET["after"])
    context: dict[str, Any] = {"cards": cards, "status": status, "board": facts.board, "filters": filters}
    if len(cards) == PAGE:
        context["last_place"] = cards[-1].place
        context["count"] = lane_counts(facts.board, filters).of(status)
    return render(request, "board/_more.html", context)

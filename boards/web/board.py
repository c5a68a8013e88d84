"""The board page: lanes and cards, filters, the next page of a lane, presence, pause (spec: 08 section 2)."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from boards import tasks
from boards.errors import BoardNotFound, Refusal
from boards.models import Board
from boards.queries.board import BoardFacts, board_facts, board_page, lane_page
from boards.queries.filters import NOBODY, BoardFilter
from boards.queries.lanes import PAGE, lane_counts
from boards.queries.partitions import address_of, choices, may_look_at, split
from boards.states import Status
from boards.web.answers import acted, refused
from boards.web.members import MemberRequest, member_page


@require_safe
@member_page
def board(request: MemberRequest, slug: str) -> HttpResponse:
    """The page; for a fragment's request its lanes alone, or with `lane` and `after` the next cards of one lane."""
    facts = found_board(request, slug)
    filters = in_partition(request, facts, BoardFilter.from_query(request.GET.dict(), request.member.user_id))
    if request.htmx and request.GET.get("after"):
        return _more(request, facts, filters)
    context = {
        "page": board_page(facts, filters),
        "facts": facts,
        "board": facts.board,
        "filters": filters,
        "nobody": NOBODY,
        "partitions": choices(request.member, facts.board),
        "elsewhere": is_elsewhere(request, facts.board),
        "shown_partition": filters.partition,
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
    """The board of the member's space, in the partition that its address names; or 404."""
    slug, key = split(slug)
    try:
        facts = board_facts(request.member.space_id, slug, key, request.member.user_id)
    except BoardNotFound as absent:
        raise Http404(absent.sentence) from absent
    if not may_look_at(request.member, facts.board, key):
        raise Http404(BoardNotFound().sentence)
    facts.board.slug = address_of(slug, key)
    return facts


def in_partition(request: MemberRequest, facts: BoardFacts, filters: BoardFilter) -> BoardFilter:
    """The filter within the one partition that the page shows; "" on a board that has none."""
    key = split(facts.board.slug)[1]
    if key:
        return filters.within(key, chosen=True)
    return filters.within(tasks.partition_of(request.chain, facts.board))


def is_elsewhere(request: MemberRequest, board: Board) -> bool:
    """Whether the page shows a partition in which the reader cannot file: filing is in one's own."""
    key = split(board.slug)[1]
    return bool(key) and key != tasks.partition_of(request.chain, board)


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

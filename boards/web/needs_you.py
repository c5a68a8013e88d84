"""*Needs you*: the list, its rows one by one, and what stands beside it (spec: 04 section 3).

GET only: answers go to `boards.web.holds`, other acts to the task or run they are about.
"""

from __future__ import annotations

from typing import Any, Final, cast

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from boards.queries import asks
from boards.queries.lately import lately
from boards.queries.needs_you import PAGE, NeedsYou, Whose, row_of, waiting
from boards.web.members import MemberRequest, member_page
from boards.web.needs_filters import filters_of, query_of

_MOST: Final = 2_000


@require_safe
@member_page
def needs_you(request: MemberRequest) -> HttpResponse:
    """The page: the first question (or the one that `open` names) is open with the whole ask."""
    context = _context(request)
    context["opened"] = _opened(request, context["found"])
    return render(request, "needs/page.html", context)


@require_safe
@member_page
def needs_rows(request: MemberRequest) -> HttpResponse:
    """The rows as they stand now, all closed, and the counts around them; static/js/keyed.js puts them in."""
    return render(request, "needs/_parts.html", _context(request) | {"oob": True})


@require_safe
@member_page
def needs_row(request: MemberRequest, key: str) -> HttpResponse:
    """One row: with `open` the whole ask, else its one line."""
    if "open" in request.GET and key.startswith("hold-"):
        hold_id = key.removeprefix("hold-")
        ask = asks.ask(request.member, int(hold_id)) if _is_id(hold_id) else None
        if ask is None or not ask.is_open:
            raise Http404
        return render(request, "needs/_row_open.html", {"ask": ask, "next": reverse("web:needs_you")})
    row = row_of(request.member, key)
    if row is None:
        raise Http404
    return render(request, "needs/_row_alone.html", {"row": row})


def _context(request: MemberRequest) -> dict[str, Any]:
    filters = filters_of(request.GET)
    limit = min(int(filters["limit"]), _MOST) if filters["limit"] else PAGE
    found = waiting(
        request.member,
        filters["kind"],
        filters["board"] or None,
        filters["q"],
        cast("Whose", filters["whose"] or "mine"),
        limit,
        agent=filters["agent"],
        flow=filters["flow"],
    )
    return {
        "found": found,
        "lately": lately(request.member),
        "filters": filters,
        "links": _links(filters),
        "more": query_of(filters | {"limit": str(limit + PAGE)}),
        "query": query_of(filters),
        "next": reverse("web:needs_you") + query_of(filters),
        "section": "needs",
        "cursor": request.cursor,
        "needs_count": found.counts.blocking,
        "needs_to_read": found.counts.to_read,
        "settle_choices": range(11),
    }


def _links(filters: dict[str, str]) -> dict[str, str]:
    """The addresses of the filters that keep the others: `kind` and `board` end in what the template adds."""
    return {
        "everything": query_of(filters | {"kind": "", "limit": ""}),
        "kind": query_of(filters | {"kind": "", "limit": ""}, "kind"),
        "board": query_of(filters | {"board": "", "limit": ""}, "board"),
        "boards": query_of(filters | {"board": "", "limit": ""}),
        "whose": query_of(filters | {"whose": "", "limit": ""}, "whose"),
        "agent": query_of(filters | {"agent": "", "limit": ""}, "agent"),
        "flow": query_of(filters | {"flow": "", "limit": ""}, "flow"),
        "agents": query_of(filters | {"agent": "", "limit": ""}),
        "flows": query_of(filters | {"flow": "", "limit": ""}),
    }


def _opened(request: MemberRequest, found: NeedsYou) -> asks.AskView | None:
    """The question that is open: the one the address names, else the first row where that is one."""
    named = request.GET.get("open", "").removeprefix("hold-")
    first = found.rows[0].hold_id if found.rows else 0
    hold_id = int(named) if _is_id(named) else first
    ask = asks.ask(request.member, hold_id) if hold_id else None
    return ask if ask and ask.is_open else None


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19

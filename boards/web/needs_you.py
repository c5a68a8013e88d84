"""*Needs you*: the list, its rows one by one, and what stands beside it (spec: 04 section 3).

GET only: answers go to `boards.web.holds`, other acts to the task or run they are about.
"""

from __future__ import annotations

from typing import Any, Final, cast

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from boards.queries import asks, catchup
from boards.queries.lately import lately
from boards.queries.needs_you import GROUPS, PAGE, NeedsYou, Whose, row_of, waiting
from boards.web.members import MemberRequest, member_page

_WHOSE: Final = ("mine", "role", "all")
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
    return render(request, "needs/_row.html", {"row": row})


def _context(request: MemberRequest) -> dict[str, Any]:
    cursor = catchup.cursor()
    filters = _filters(request)
    limit = min(int(filters["limit"]), _MOST) if filters["limit"] else PAGE
    found = waiting(
        request.member,
        filters["kind"],
        filters["board"] or None,
        filters["q"],
        cast("Whose", filters["whose"] or "mine"),
        limit,
    )
    return {
        "found": found,
        "lately": lately(request.member),
        "filters": filters,
        "links": _links(filters),
        "more": _query(filters | {"limit": str(limit + PAGE)}),
        "query": _query(filters),
        "next": reverse("web:needs_you") + _query(filters),
        "section": "needs",
        "cursor": cursor,
    }


def _filters(request: MemberRequest) -> dict[str, str]:
    """What the address filters by; an unknown value is none."""
    given = request.GET
    kinds = {group.value for group in GROUPS}
    limit = given.get("limit", "")
    return {
        "whose": given.get("whose", "") if given.get("whose") in _WHOSE else "",
        "kind": given.get("kind", "") if given.get("kind") in kinds else "",
        "board": given.get("board", "")[:80],
        "q": given.get("q", "").replace("\0", "").strip()[:200],
        "limit": limit if limit.isascii() and limit.isdigit() and len(limit) < 6 else "",
    }


def _links(filters: dict[str, str]) -> dict[str, str]:
    """The addresses of the filters that keep the others: `kind` and `board` end in what the template adds."""
    return {
        "everything": _query(filters | {"kind": "", "limit": ""}),
        "kind": _query(filters | {"kind": "", "limit": ""}, "kind"),
        "board": _query(filters | {"board": "", "limit": ""}, "board"),
        "boards": _query(filters | {"board": "", "limit": ""}),
        "whose": _query(filters | {"whose": "", "limit": ""}, "whose"),
    }


def _query(filters: dict[str, str], last: str = "") -> str:
    query = urlencode({name: value for name, value in filters.items() if value and name != last})
    tail = f"{last}=" if last else ""
    return f"?{'&'.join(part for part in (query, tail) if part)}" if query or tail else "?"


def _opened(request: MemberRequest, found: NeedsYou) -> asks.AskView | None:
    """The question that is open: the one the address names, else the first row where that is one."""
    named = request.GET.get("open", "").removeprefix("hold-")
    first = found.rows[0].hold_id if found.rows else 0
    hold_id = int(named) if _is_id(named) else first
    ask = asks.ask(request.member, hold_id) if hold_id else None
    return ask if ask and ask.is_open else None


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19

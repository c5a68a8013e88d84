"""What the address of *Needs you* filters by, and the address of a filter (spec: 04 section 3.2)."""

from __future__ import annotations

from typing import Final

from django.http import QueryDict
from django.utils.http import urlencode

from boards.queries.needs_you import GROUPS

_WHOSE: Final = ("mine", "role", "all")
_NAMES: Final = ("agent", "flow")


def filters_of(given: QueryDict) -> dict[str, str]:
    """The filters by name; an unknown value is none."""
    kinds = {group.value for group in GROUPS}
    limit = given.get("limit", "")
    named = {name: given.get(name, "").replace("\0", "").strip()[:100] for name in _NAMES}
    return {
        "whose": given.get("whose", "") if given.get("whose") in _WHOSE else "",
        "kind": given.get("kind", "") if given.get("kind") in kinds else "",
        "board": given.get("board", "")[:80],
        **named,
        "q": given.get("q", "").replace("\0", "").strip()[:200],
        "limit": limit if limit.isascii() and limit.isdigit() and len(limit) < 6 else "",
    }


def query_of(filters: dict[str, str], last: str = "") -> str:
    """The query string of these filters; with `last` it ends in that name, whose value is added by who links."""
    query = urlencode({name: value for name, value in filters.items() if value and name != last})
    tail = f"{last}=" if last else ""
    return f"?{'&'.join(part for part in (query, tail) if part)}" if query or tail else "?"

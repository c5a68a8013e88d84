"""The one way to render a closed row of *Needs you*: made once per process for equal values and language.

Presentation only. What differs each time is put in afterwards: the words of its times, and of its form the token, the
key under which it is sent once, and where it leads back to.
"""

from __future__ import annotations

import secrets
import uuid
from functools import lru_cache
from typing import Any, Final

from django import template
from django.template.loader import get_template
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString
from django.utils.translation import get_language

from boards.queries.waiting_row import Row
from boards.templatetags.orchestra import with_times

register = template.Library()

# Drawn anew by each process, so that no text of a row holds them.
_TOKEN, _KEY, _NEXT = (f"\x01{secrets.token_hex(8)}\x01" for _ in range(3))
_KEPT: Final = 2_048


@register.simple_tag(takes_context=True)
def needs_row(context: dict[str, Any], row: Row, soon: str = "") -> SafeString:
    """`soon`: the section that it stands in."""
    html = _rendered(_Shown(row), soon, get_language())
    for mark, told in ((_TOKEN, context.get("csrf_token", "")), (_NEXT, context.get("next", ""))):
        html = html.replace(mark, conditional_escape(told))
    return with_times(html.replace(_KEY, uuid.uuid4().hex) if _KEY in html else html)


class _Shown:
    """A row by what it says: its options are lists, that have no hash."""

    __slots__ = ("_says", "row")

    def __init__(self, row: Row) -> None:
        self.row, self._says = row, repr(row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shown) and self._says == other._says

    def __hash__(self) -> int:
        return hash(self._says)


@lru_cache(maxsize=_KEPT)
def _rendered(shown: _Shown, soon: str, language: str | None) -> str:
    context = {"row": shown.row, "soon": soon, "csrf_token": _TOKEN, "form_key": _KEY, "next": _NEXT}
    return get_template("needs/_row.html").render(context)

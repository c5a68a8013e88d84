"""The small acts of *Needs you* that belong to no task or hold: mark as seen, and the reader's own settle time."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import resolve_url
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from boards import people
from boards.errors import NotFound, Refusal
from boards.queries.needs_you import row_of
from boards.web.answers import acted, refused
from boards.web.members import MemberRequest, member_page, safe_next


@require_POST
@member_page
def seen(request: MemberRequest) -> HttpResponse:
    """A row that only wanted to be read was read."""
    back = _back(request)
    key = request.POST.get("key", "")
    try:
        row = row_of(request.member, key)
        if row is None or row.blocks:
            raise NotFound(_("This row is not there to be marked as seen."))
        people.mark_seen(request.chain, key)
    except Refusal as refusal:
        return refused(request, refusal, back=back)
    return acted(request, _("Marked as seen."), back=back)


@require_POST
@member_page
def settle(request: MemberRequest) -> HttpResponse:
    """How long the reader's own answers may be taken back from now on."""
    back = _back(request)
    text = request.POST.get("seconds", "")
    try:
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        seconds = people.set_settle_time(request.chain, int(text) if is_number else text)
    except Refusal as refusal:
        return refused(request, refusal, back=back)
    if not seconds:
        return acted(request, _("Your answers are final at once; gate drafts wait 3 s."), back=back)
    words = ngettext("Your answers settle for %(n)d second.", "Your answers settle for %(n)d seconds.", seconds)
    return acted(request, words % {"n": seconds}, back=back)


def _back(request: MemberRequest) -> str:
    return safe_next(request, request.POST.get("next", ""), resolve_url("web:needs_you"))

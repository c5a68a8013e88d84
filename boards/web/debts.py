"""An operator's acts on a debt, from its row in *Needs you*: try it again, or drop it (spec: 04 section 3)."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from boards.debts import operating
from boards.debts.paying import Paid
from boards.errors import Refusal
from boards.web.answers import acted, refused
from boards.web.members import MemberRequest, member_page


class StillOwed(Refusal):
    """It failed again. The row says why."""

    code = "still_owed"


@require_POST
@member_page
def debt_act(request: MemberRequest, debt_id: int, verb: str) -> HttpResponse:
    """`retry` or `drop`; the answer is a toast, or back on the list with the sentence."""
    back = resolve_url("web:needs_you")
    if verb not in {"retry", "drop"}:
        raise Http404
    try:
        if verb == "drop":
            seen = operating.drop(request.chain, debt_id) in operating.SEEN_ONLY
            return acted(request, _("Marked as seen.") if seen else _("Dropped."), back=back)
        if operating.pay_again(request.chain, debt_id) is Paid.FAILED:
            raise StillOwed(_("It failed again and is tried on; the row is back if it fails for good."))
    except Refusal as refusal:
        return refused(request, refusal, back=back)
    return acted(request, _("Retried."), back=back)

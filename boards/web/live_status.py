"""What a page asks when its socket was refused twice: is it me, or is the server away? (spec: 08 section 1.4)

A refused handshake says nothing to a browser. Answers three yes-or-noes and no data; it needs no sign-in, because
being signed out is one of the answers.
"""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from boards.queries.subscriptions import subscribe
from boards.web.members import SPACE_KEY


@require_safe
@never_cache
def live_status(request: HttpRequest) -> JsonResponse:
    """`ok`: this process serves. `allowed`: the page may hear of what the address names, as the socket's would."""
    user_id = request.user.pk
    signed_in = user_id is not None
    space = request.session.get(SPACE_KEY)
    allowed = user_id is not None and subscribe(user_id, request.GET.dict(), space) is not None
    return JsonResponse({"ok": True, "signed_in": signed_in, "allowed": allowed})

"""A member's keys for agents: see, make, replace and revoke them (spec: 06 section 6).

A secret is in the answer to the POST that made it and nowhere else: no session, message or address ever holds it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.http import Http404, HttpResponse
from django.shortcuts import render, resolve_url
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from boards import keys, policy
from boards.errors import Refusal
from boards.models import AgentKey, Scope
from boards.queries.agent_keys import find_key, keys_page
from boards.web.answers import acted, refused
from boards.web.members import MemberRequest, member_page

# What each scope is for, in the words of the form.
SCOPES: Final[tuple[tuple[str, str | Promise], ...]] = (
    (Scope.READ, gettext_lazy("Reads boards, tasks, runs and what waits on people.")),
    (Scope.FILE, gettext_lazy("Files tasks and starts flows; changes and cancels what it filed itself.")),
    (Scope.WORK, gettext_lazy("Takes and works tasks of outside workers. Such a key never decides anything.")),
    (Scope.DECIDE, gettext_lazy("Answers questions, accepts, sends back and retries, as you may.")),
    (Scope.ADMIN, gettext_lazy("With File or Decide: also on what others filed or started.")),
)
ENDS: Final[tuple[tuple[str, str | Promise], ...]] = (
    ("7", gettext_lazy("in 7 days")),
    ("30", gettext_lazy("in 30 days")),
    ("90", gettext_lazy("in 90 days")),
    ("365", gettext_lazy("in a year")),
    ("", gettext_lazy("never")),
)
_USUAL: Final = {"scopes": [Scope.READ, Scope.FILE], "every_board": True, "ends": "90", "name": "", "boards": []}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("secret")
@member_page
def agent_keys(request: MemberRequest) -> HttpResponse:
    """The member's keys; a POST makes one and shows it, or the form again with what is wrong."""
    if request.method != "POST":
        return _page(request)
    try:
        made, secret = keys.make(request.chain, _given(request))
    except Refusal as refusal:
        return _page(request, wrong=refusal)
    return _page(request, made=made, secret=secret)


@never_cache
@require_POST
@sensitive_variables("secret")
@member_page
def agent_key_act(request: MemberRequest, number: int, verb: str) -> HttpResponse:
    """Revoke one, or replace its secret, which this answer shows."""
    key = find_key(request.member, number) if number < 2**63 else None
    if key is None or verb not in {"revoke", "rotate"}:
        raise Http404("There is no such key.")
    back = resolve_url("web:agent_keys")
    try:
        if verb == "rotate":
            secret = keys.rotate(request.chain, key, keep_old="keep_old" in request.POST)
            return _page(request, made=key, secret=secret)
        keys.revoke(request.chain, key)
    except Refusal as refusal:
        return refused(request, refusal, back=back)
    return acted(request, _("“%(name)s” is revoked.") % {"name": key.name}, back=back)


def _given(request: MemberRequest) -> keys.KeyFields:
    form = request.POST
    days = form.get("ends", "")
    known = {value for value, _words in ENDS if value}
    expires_at = request.now + timedelta(days=int(days)) if days in known else None
    chosen = [int(pk) for pk in form.getlist("boards") if pk.isascii() and pk.isdigit() and len(pk) < 19]
    boards = None if form.get("every_board") == "yes" else chosen
    return keys.KeyFields(form.get("name", ""), form.getlist("scopes"), boards, expires_at)


def _page(
    request: MemberRequest, *, wrong: Refusal | None = None, made: AgentKey | None = None, secret: str = ""
) -> HttpResponse:
    form = request.POST
    shown: dict[str, Any] = dict(_USUAL)
    if wrong is not None:
        shown = {
            "name": form.get("name", ""),
            "scopes": form.getlist("scopes"),
            "every_board": form.get("every_board") == "yes",
            "ends": form.get("ends", ""),
            "boards": form.getlist("boards"),
        }
    page = keys_page(request.member)
    chosen = set(shown["boards"])
    context = {
        "page": page,
        "shown": shown,
        "scopes": [(value, Scope(value).label, words, value in shown["scopes"]) for value, words in SCOPES],
        "boards": [(board, str(board.pk) in chosen) for board in page.boards],
        "ends": ENDS,
        "made": made,
        "secret": secret,
        "wrong": wrong,
        "wrong_field": str(wrong.facts.get("field", "")) if wrong else "",
        "may_make": request.member.role in policy.ROLE_ACTIONS["keys.manage"],
        "api_at": request.build_absolute_uri("/api/v1/"),
    }
    return render(request, "told/keys.html", context, status=wrong.http_status if wrong else 200)

"""Who is asking: sign-in, membership, and the caller chain of a page's request (spec: 06 section 1).

Every page of the product is wrapped by `member_page`; nothing else here reads the session. It decides no rights
beyond membership: the verbs do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast

from django.contrib.auth.views import redirect_to_login
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.functional import SimpleLazyObject
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from boards import actors
from boards.models import Member
from boards.queries.catchup import cursor_at, snapshot
from boards.stored_text import clean_text

if TYPE_CHECKING:
    from django_htmx.middleware import HtmxDetails

    from boards.actors import Chain

View = ParamSpec("View")
SPACE_KEY = "space"  # in the session: the id of the space whose pages are shown


class MemberRequest(HttpRequest):
    """What a page's view gets: a request of a signed-in member of `member.space`."""

    member: Member
    memberships: list[Member]
    chain: Chain
    cursor: str  # where the page stands: taken before anything else is read
    now: datetime  # what the database's clock said then
    htmx: HtmxDetails


def member_page(
    view: Callable[Concatenate[MemberRequest, View], HttpResponse],
) -> Callable[Concatenate[HttpRequest, View], HttpResponse]:
    """Let signed-in members in, with `request.member` and `request.chain`; others get the way to sign in."""

    @functools.wraps(view)
    def guarded(request: HttpRequest, /, *args: View.args, **kwargs: View.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            return to_sign_in(request)
        memberships: list[Any] = list(
            Member.objects.filter(user=request.user)
            .select_related("space")
            .annotate(snapshot=snapshot(), db_now=Now())
            .order_by("space__name", "pk")
        )
        if not memberships:
            return render(request, "signin_no_space.html", status=403)
        _clean_texts(request)
        asked = cast(MemberRequest, request)
        asked.memberships = memberships
        asked.member = _current(memberships, request.session.get(SPACE_KEY))
        asked.member.user = request.user
        asked.cursor = cursor_at(memberships[0].snapshot)
        asked.now = memberships[0].db_now
        # Lazy: a page that only reads needs no session of the member's own.
        asked.chain = cast("Chain", SimpleLazyObject(lambda: actors.person(asked.member)))
        response = view(asked, *args, **kwargs)
        patch_cache_control(response, private=True, no_cache=True)
        patch_vary_headers(response, ["HX-Request"])
        return response

    return guarded


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """The way to the sign-in page and back; a fragment's request moves the whole page there."""
    htmx = getattr(request, "htmx", None)
    if not htmx:
        return redirect_to_login(request.get_full_path())
    back = htmx.current_url_abs_path or "/"
    response = HttpResponse(status=401)
    response["HX-Redirect"] = redirect_to_login(back)["Location"]
    return response


@require_POST
@member_page
def switch_space(request: MemberRequest) -> HttpResponse:
    """Show another of the member's spaces from now on."""
    member = get_object_or_404(Member, user=request.member.user, space__slug=request.POST.get("space", ""))
    request.session[SPACE_KEY] = member.space_id
    return redirect("web:home")


def _clean_texts(request: HttpRequest) -> None:
    """As the database can compare and store it: of an address odd signs are dropped, of a form they are replaced."""
    if clean := _cleaned(request.GET, lambda text: text.replace("\0", "")):
        request.GET = clean  # type: ignore[assignment]  # a plain attribute by now
    if request.method == "POST" and (clean := _cleaned(request.POST, clean_text)):
        request.POST = clean  # type: ignore[assignment]


def _cleaned(form: QueryDict, cleans: Callable[[str], str]) -> QueryDict | None:
    """The same names and values, cleaned; None where nothing is to be cleaned."""
    if all(cleans(text) == text for name, texts in form.lists() for text in (name, *texts)):
        return None
    clean = QueryDict(mutable=True)
    for name, texts in form.lists():
        clean.setlist(cleans(name), [cleans(text) for text in texts])
    clean._mutable = False
    return clean


def safe_next(request: HttpRequest, given: str, otherwise: str) -> str:
    """`given` where it is an address of ours, else `otherwise`."""
    ours = url_has_allowed_host_and_scheme(given, {request.get_host()}, require_https=request.is_secure())
    return given if given and ours else otherwise


def _current(memberships: list[Member], space_id: object) -> Member:
    return next((member for member in memberships if member.space_id == space_id), memberships[0])

"""Who calls: an agent by its member's key, or a member by the browser session with its CSRF token (spec: 06, 4).

The chain is built here and by nothing that the caller sends. A key stands in the Authorization header only; of those
that do not count none is told apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.views.decorators.debug import sensitive_variables

from boards import actors, keys
from boards.actors import Chain
from boards.api.bodies import is_json
from boards.api.problems import CsrfFailed, NoSpace, NotJson, NotSignedIn, TooMany
from boards.errors import KeyRefused
from boards.models import Member

SPACE_KEY: Final = "space"  # in the session: the space whose pages are shown
_REFUSED_A_MINUTE: Final = 60  # wrong keys from one address


@dataclass(frozen=True)
class Caller:
    member: Member
    chain: Chain
    counted_as: str


class Waits(TooMany):
    """Too many calls. Wait as long as Retry-After says."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        super().__init__(f"Too many calls. Try again in {seconds} s.")


def caller_of(request: HttpRequest, *, counts: bool = True) -> Caller:
    """Whoever calls, as one call more (`counts`). Raises NotSignedIn, KeyRefused, NoSpace, CsrfFailed, Waits."""
    caller = _by_key(request) if "Authorization" in request.headers else _by_session(request)
    if counts and (seconds := keys.seconds_to_wait(caller.counted_as, settings.API_CALLS_PER_MINUTE)):
        raise Waits(seconds)
    return caller


@sensitive_variables("secret", "header")
def _by_key(request: HttpRequest) -> Caller:
    header = request.headers["Authorization"]
    scheme, _space, secret = header.partition(" ")
    key = keys.find(secret.strip()) if scheme.lower() == "bearer" else None
    if key is None:
        address = str(request.META.get("REMOTE_ADDR", ""))
        if seconds := keys.seconds_to_wait(f"refused:{address}", _REFUSED_A_MINUTE):
            raise Waits(seconds)
        raise KeyRefused
    return Caller(key.member, keys.chain_of(key), f"key:{key.pk}")


def _by_session(request: HttpRequest) -> Caller:
    if not request.user.is_authenticated:
        raise NotSignedIn
    if request.method not in {"GET", "HEAD"}:
        _check_csrf(request)
    user = request.user
    memberships = list(Member.objects.filter(user=user).select_related("space").order_by("space__name", "pk"))
    if not memberships:
        raise NoSpace
    shown = request.session.get(SPACE_KEY)
    member = next((each for each in memberships if each.space_id == shown), memberships[0])
    member.user = user
    return Caller(member, actors.person(member), f"member:{member.pk}")


class _Csrf(CsrfViewMiddleware):
    """Django's own check, asked by hand: the view is exempt from it, since a key needs none."""

    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        return HttpResponse(reason)


def _check_csrf(request: HttpRequest) -> None:
    if request.content_type and not is_json(request):
        raise NotJson  # before the check reads a form for its token
    check = _Csrf(lambda _request: HttpResponse())
    check.process_request(request)
    if check.process_view(request, lambda _request: HttpResponse(), (), {}) is not None:
        raise CsrfFailed

"""Who opens a socket, and whether its user still may: session, user and rights (spec: 08 section 1.1 and 1.6).

Reads only, anew each time, in a thread. A session that cannot be verified is nobody's; nothing is flushed or renewed
here, because a socket can hand no cookie back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.http import parse_cookie
from django.utils.crypto import constant_time_compare

from boards.models import User
from boards.queries.subscriptions import Subscription, subscribe

SIGNED_OUT, NO_RIGHT = 4401, 4403
SPACE_KEY = "space"  # what `boards.web.members` keeps in the session


@dataclass(frozen=True, slots=True)
class Request:
    """What a handshake asks for: its cookie's session and its address's names. Equal ones are checked once."""

    session_key: str
    query: tuple[tuple[str, str], ...]


def asked(scope: Mapping[str, Any]) -> Request:
    """Read the handshake; text that is none, or too much of it, names nothing."""
    cookies: dict[str, str] = {}
    for name, value in scope.get("headers", ()):
        if name.lower() == b"cookie":
            cookies |= parse_cookie(value.decode("latin1"))
    try:
        query = parse_qsl(scope.get("query_string", b"").decode("ascii"), errors="strict", max_num_fields=20)
    except ValueError:
        query = [("board", "none")]
    return Request(cookies.get(settings.SESSION_COOKIE_NAME, ""), tuple(query))


def admit(request: Request) -> Subscription | int:
    """What the page may hear, or the close code that says why not."""
    session = _session(request.session_key)
    user = _user(session)
    if user is None:
        return SIGNED_OUT
    return subscribe(user.pk, dict(request.query), session.get(SPACE_KEY)) or NO_RIGHT


def refusals(requests: Iterable[Request]) -> dict[Request, int]:
    """Those that would not be admitted now, with their close codes."""
    answers = {request: admit(request) for request in set(requests)}
    return {request: answer for request, answer in answers.items() if isinstance(answer, int)}


def _session(key: str) -> Any:
    """The stored session, empty where the key is unknown or has expired."""
    return import_module(settings.SESSION_ENGINE).SessionStore(key or None)


def _user(session: Any) -> User | None:
    """The active user whose password is still the one that the session was made with."""
    user_id = session.get(SESSION_KEY)
    user = User.objects.filter(pk=user_id, is_active=True).first() if user_id else None
    if user is None:
        return None
    kept = session.get(HASH_SESSION_KEY, "")
    known = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return user if any(constant_time_compare(kept, one) for one in known) else None

"""Which pages may open a socket: those of this site itself and of the origins it trusts (spec: 09 section 3).

Browsers send cookies with any socket, whatever page opened it, so this is what keeps foreign pages out. Compared are
whole hosts with their ports, never beginnings or ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.utils.http import is_same_domain

_ORIGIN: Final = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")
_PORTS: Final = {"http": "80", "https": "443"}

Place = tuple[str, str, str]


def is_own_page(scope: dict[str, Any]) -> bool:
    """Whether the handshake's one Origin is this site, or one of CSRF_TRUSTED_ORIGINS."""
    origins, hosts = _headers(scope, b"origin"), _headers(scope, b"host")
    if len(origins) != 1 or len(hosts) != 1:
        return False
    origin = _place(origins[0])
    return origin is not None and (_is_site(origin, hosts[0]) or _is_trusted(origin))


def _headers(scope: dict[str, Any], wanted: bytes) -> list[str]:
    return [value.decode("latin1").lower() for name, value in scope.get("headers", ()) if name.lower() == wanted]


def _place(origin: str) -> Place | None:
    """(scheme, host, port) of an origin as browsers write it; None for `null` and for anything longer."""
    parts = _ORIGIN.fullmatch(origin)
    return (parts[1], parts[2], parts[3] or _PORTS[parts[1]]) if parts else None


def _is_site(origin: Place, host_header: str) -> bool:
    scheme, host, port = origin
    asked, asked_port = split_domain_port(host_header)
    if settings.SESSION_COOKIE_SECURE and scheme != "https":
        return False
    return (
        bool(asked) and validate_host(asked, _allowed_hosts()) and (host, port) == (asked, asked_port or _PORTS[scheme])
    )


def _is_trusted(origin: Place) -> bool:
    return any(_matches(origin, trusted.lower()) for trusted in settings.CSRF_TRUSTED_ORIGINS)


def _matches(origin: Place, trusted: str) -> bool:
    """An origin in full, or `scheme://*.domain` for its subdomains, as Django reads the setting."""
    scheme, _, rest = trusted.partition("://")
    if not rest.startswith("*."):
        return _place(trusted) == origin
    domain, port = split_domain_port(rest[2:])
    same_end = is_same_domain(origin[1], f".{domain}") and origin[1] != domain
    return same_end and origin[0] == scheme and origin[2] == (port or _PORTS.get(scheme))


def _allowed_hosts() -> Iterable[str]:
    return settings.ALLOWED_HOSTS or (["localhost", "127.0.0.1", "[::1]"] if settings.DEBUG else [])

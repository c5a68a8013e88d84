"""One outgoing POST to an address that somebody configured, as the rules for outgoing webhooks want it (spec: 09, 3).

https only, but for hosts that WEBHOOK_ALLOW_HOSTS names (`name` or `name:port`); the name is resolved once, every
address that is not public is refused, and the connection goes to the address that was checked. No redirect is
followed. Signed as Standard Webhooks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import ipaddress
import os
import socket
import time
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

TIMEOUT_S: Final = 10.0
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class Refused(Exception):
    """The address may not be sent to, now or later."""


def host_of(url: str) -> str:
    """What people are told of an address: its host and port, never a secret in its path."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or url[:80]
    except ValueError:
        return url[:80]


def problem(url: str) -> str:
    """Why an address can never be sent to, in words for its form; "" where it looks right. Resolves nothing."""
    try:
        _checked(url)
    except Refused as refused:
        return str(refused)
    return ""


def post(url: str, body: bytes, *, message_id: str, secret_name: str = "") -> int:
    """Send a JSON body; answers the status. Raises Refused for a forbidden address, OSError for what may pass."""
    parts = _checked(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _address(parts, port)
    connection = _connection(parts, port, address)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, _headers(body, message_id, secret_name))
        status = connection.getresponse().status
    except http.client.HTTPException as error:
        raise ConnectionError(f"{host_of(url)} gave no HTTP answer: {error}") from error
    finally:
        connection.close()
    return status


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        named = parts.netloc.rpartition("@")[2].lower()
        parts.port  # noqa: B018 (raises for a port that is none)
    except ValueError:
        raise Refused("This is no address.") from None
    if not parts.hostname or parts.username or parts.password:
        raise Refused("An outlet is an address such as https://example.org/hook, without a name or password in it.")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_allowed(parts)):
        raise Refused(f"Only https is sent to; {named or url[:80]} is not listed in WEBHOOK_ALLOW_HOSTS.")
    return parts


def _address(parts: SplitResult, port: int) -> str:
    """One address of the host; where any of them is not public, none."""
    assert parts.hostname is not None
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ConnectionError(f"{parts.hostname} cannot be found: {error}") from error
    addresses = [str(entry[4][0]) for entry in found]
    if not _is_allowed(parts) and not all(map(_is_public, addresses)):
        raise Refused(f"{parts.hostname} leads to an address that is not public, so nothing is sent there.")
    return addresses[0]


def _is_allowed(parts: SplitResult) -> bool:
    names = {name.lower() for name in settings.WEBHOOK_ALLOW_HOSTS}
    return not names.isdisjoint({parts.netloc.lower(), (parts.hostname or "").lower()})


def _is_public(address: str) -> bool:
    """Whether it is an address of the open internet, also where another one is written into it."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(str(inner))
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _connection(parts: SplitResult, port: int, address: str) -> http.client.HTTPConnection:
    assert parts.hostname is not None
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    made = kind(parts.hostname, port, timeout=TIMEOUT_S)

    def connect(_where: tuple[str, int], timeout: Any = TIMEOUT_S, source: Any = None) -> socket.socket:
        return socket.create_connection((address, port), timeout, source)  # the one that was checked

    made._create_connection = connect  # type: ignore[attr-defined]
    return made


def _headers(body: bytes, message_id: str, secret_name: str) -> dict[str, str]:
    stamp = str(int(time.time()))
    headers = {"Content-Type": "application/json", "User-Agent": "Orchestra", "webhook-id": message_id}
    headers["webhook-timestamp"] = stamp
    secret = os.environ.get(secret_name, "") if secret_name else ""
    if secret:
        signed = b".".join([message_id.encode(), stamp.encode(), body])
        digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
        headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return headers

"""One outgoing POST to an address that somebody chose, and nowhere else (spec: 09 section 3).

The name is looked up once, every address it stands for is checked, and the connection goes to a checked address, so
nothing can change in between. Redirects are answers, never followed. Hosts of WEBHOOK_ALLOW_HOSTS may be private and
speak plain HTTP. No part of what the receiver answers but its status is kept.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import ipaddress
import json
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from boards.debts.kinds import Undeliverable

TIMEOUT_S: Final = 5.0  # of one step: connecting, a part of the answer
DEADLINE_S: Final = 12.0  # of all of it
LONGEST_WAIT_S: Final = 6 * 3600.0
_PRINTABLE: Final = re.compile(r"[!-~]{1,1000}")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class BadAddress(ValueError):
    """The sentence says what is wrong with the address."""


class Refused(Undeliverable):
    """The receiver will not take it, however often it is tried."""


class NotNow(Exception):
    """It may be taken later. `after`: the seconds that the receiver asked for."""

    def __init__(self, sentence: str, after: float | None = None) -> None:
        super().__init__(sentence)
        self.after = after


def send_json(url: str, told: Any, ident: str, secret: str) -> None:
    """Post something as JSON until it is taken: raises NotNow for what a repeat may change, Refused for the rest.

    `ident` names it to the receiver, a repeat by the same; `secret` signs it, "" leaves the signature out.
    """
    body = json.dumps(told, ensure_ascii=False).encode()
    status, after = post(url, body, signed_headers(ident, secret, body))
    if 200 <= status < 300:
        return
    sentence = f"The webhook at {urlsplit(url).hostname} answered {status}."
    if status in {408, 425, 429} or status >= 500:
        raise NotNow(sentence, after)
    raise Refused(f"{sentence} Redirects are not followed." if 300 <= status < 400 else sentence)


def problem(url: str) -> str:
    """Why an address can never be sent to, in words for its form; "" where it looks right. Looks nothing up."""
    try:
        checked_url(url)
    except BadAddress as error:
        return str(error)
    return ""


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()


def signed_headers(ident: str, secret: str, body: bytes) -> dict[str, str]:
    """By the rules of Standard Webhooks: HMAC-SHA256 of id, time and body.

    A secret that begins with whsec_ is base64, as they want it; any other is taken as it stands.
    """
    at = str(int(time.time()))
    told = {"webhook-id": ident, "webhook-timestamp": at}
    if not secret:
        return told
    named = secret.removeprefix("whsec_")
    key = base64.b64decode(named) if named != secret else secret.encode()
    digest = hmac.new(key, f"{ident}.{at}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return told | {"webhook-signature": signature}


def checked_url(url: str) -> SplitResult:
    """The parts of an address that may be posted to as far as it can be told without looking it up. BadAddress."""
    if not _PRINTABLE.fullmatch(url):
        raise BadAddress("Write the whole address, without spaces, at most 1,000 signs.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadAddress("This is not an address.") from error
    if not host or parts.scheme not in {"https", "http"}:
        raise BadAddress("Write an address that begins with https://.")
    if parts.username is not None or parts.password is not None:
        raise BadAddress("Leave the name and password out of the address.")
    if parts.scheme == "http" and not _is_allowed(host, port):
        raise BadAddress("Use https://. Plain http is for hosts that this installation allows (WEBHOOK_ALLOW_HOSTS).")
    written = _as_address(host)
    if written is not None and not is_public(written) and not _is_allowed(host, port):
        raise BadAddress(f"{host} lies in a private network, where nothing is sent to.")
    return parts


def _as_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, float | None]:
    """The status of the answer, and the seconds that it asks to wait. Raises Refused or NotNow."""
    try:
        parts = checked_url(url)
    except BadAddress as error:
        raise Refused(str(error)) from error
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        with _connected(parts, host, port) as line, _by(DEADLINE_S, line):
            spoken = http.client.HTTPConnection(host, port)
            spoken.sock = line
            spoken.putrequest("POST", target, skip_host=True, skip_accept_encoding=True)
            given = {"Host": parts.netloc, "Content-Type": "application/json", "User-Agent": "Orchestra"}
            for name, value in (given | {"Content-Length": str(len(body))} | headers).items():
                spoken.putheader(name, value)
            spoken.endheaders(body)
            answer = spoken.getresponse()
            return answer.status, _seconds(answer.getheader("Retry-After"))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotNow(f"The webhook at {host} could not be reached: {_words(error)}") from error


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is an address of the open internet, also where another one is written into it."""
    inner: ipaddress.IPv4Address | None = None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def _connected(parts: SplitResult, host: str, port: int) -> socket.socket:
    """A connection to one of the addresses that the name stands for now, all of which were checked."""
    line = _open(_addresses(host, port), port)
    if parts.scheme == "http":
        return line
    try:
        return ssl.create_default_context().wrap_socket(line, server_hostname=host)
    except BaseException:
        line.close()
        raise


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(place[4][0]) for place in found))
    private = [one for one in addresses if not is_public(ipaddress.ip_address(one.partition("%")[0]))]
    if private and not _is_allowed(host, port):
        raise Refused(f"{host} stands for {private[0]}, which lies in a private network; nothing is sent there.")
    return addresses


def _open(addresses: list[str], port: int) -> socket.socket:
    failed: OSError = OSError("no address")
    for address in addresses[:3]:
        try:
            return socket.create_connection((address, port), TIMEOUT_S)
        except OSError as error:
            failed = error
    raise failed


@contextlib.contextmanager
def _by(seconds: float, line: socket.socket) -> Iterator[None]:
    """Cut the line at the deadline: an answer that comes drop by drop would go on for ever."""

    def cut() -> None:
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_allowed(host: str, port: int | None) -> bool:
    names = {name.lower() for name in settings.WEBHOOK_ALLOW_HOSTS}
    return host.lower() in names or f"{host.lower()}:{port}" in names


def _seconds(after: str | None) -> float | None:
    """Of a Retry-After in either of its two forms; None where there is none, or none that can be read."""
    if not after:
        return None
    try:
        seconds = float(after) if after.strip().isdigit() else parsedate_to_datetime(after).timestamp() - time.time()
    except (TypeError, ValueError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT_S)


def _words(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__

"""`/hooks/<id>`: where others post signed JSON to (spec: 05 section 7; 09 section 3). Every answer is JSON.

It needs no sign-in and no CSRF token: the signature is what lets a message in. Until that is proven, every address
answers alike, whether there is such a webhook or not.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, JsonResponse
from django.http.request import RawPostDataException
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from boards import flows
from boards.errors import Refusal
from boards.stored_text import clean_text
from boards.web.throttle import Throttle

MAX_BODY: Final = 256 * 1024
# For each webhook that was let in; and, for each address and id, what was not.
LET_IN: Final = Throttle(120)
TURNED_AWAY: Final = Throttle(30)
_HEADERS: Final = ("webhook-id", "webhook-timestamp", "webhook-signature")


@csrf_exempt
@never_cache
def hook(request: HttpRequest, public_id: str) -> JsonResponse:
    """Take one message. 200 with {"run": number} or {"event": key}; else {"code", "error"} with a sentence."""
    if request.method != "POST":
        return _refused(405, "not_post", "Send a POST.", Allow="POST")
    if request.content_type != "application/json":
        return _refused(415, "not_json", "Send JSON, with the content type application/json.")
    sender = (request.META.get("REMOTE_ADDR", ""), public_id)
    if seconds := TURNED_AWAY.wait(sender):
        return _busy(seconds)
    body = _body(request)
    if body is None:
        return _refused(413, "too_large", f"A message has at most {MAX_BODY:,} bytes.")
    ident, timestamp, signature = (request.headers.get(name, "") for name in _HEADERS)
    message = flows.Message(ident, timestamp, signature, body)
    try:
        return JsonResponse(flows.take_message(clean_text(public_id), message, lambda: _let_in(public_id)))
    except _Busy as busy:
        return _busy(busy.seconds)
    except Refusal as refusal:
        if isinstance(refusal, flows.NotSigned):
            TURNED_AWAY.count(sender)
        return _refused(refusal.http_status, refusal.code, clean_text(refusal.sentence))


class _Busy(Exception):
    """This webhook's own count is full; said only to those who hold its key."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds


def _let_in(public_id: str) -> None:
    if seconds := LET_IN.wait(public_id):
        raise _Busy(seconds)
    LET_IN.count(public_id)


def _body(request: HttpRequest) -> bytes | None:
    """The body, or None where it is too large; no more of it than that is read."""
    told = request.META.get("CONTENT_LENGTH") or "0"
    if not told.isdigit() or int(told) > MAX_BODY:
        return None
    try:
        body = request.read(MAX_BODY + 1)
    except RawPostDataException:
        return None
    return body if len(body) <= MAX_BODY else None


def _busy(seconds: int) -> JsonResponse:
    words = f"Too many messages. Try again in {seconds} s."
    return _refused(429, "too_many", words, **{"Retry-After": str(seconds)})


def _refused(status: int, code: str, sentence: str, **headers: str) -> JsonResponse:
    return JsonResponse({"code": code, "error": sentence}, status=status, headers=headers)

"""Refusals as RFC 9457 problem details: the engines' code and sentence, and what else is known of it."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse, JsonResponse

from boards.api.shapes_of_holds import hold_wire
from boards.errors import Refusal
from boards.models import Hold
from boards.stored_text import clean_text

CONTENT_TYPE: Final = "application/problem+json"
# Facts of a refusal that a client may read; others are for pages.
_FACTS: Final = frozenset(
    {"field", "fields", "index", "id", "task_id", "from_status", "to_status", "reason", "status_seen", "problems"}
)


class NotSignedIn(Refusal):
    """Send a key as “Authorization: Bearer …”, or sign in first."""

    code, http_status = "not_signed_in", 401


class NoSpace(Refusal):
    """You are a member of no space. Ask an operator to add you."""

    code, http_status = "no_space", 403


class CsrfFailed(Refusal):
    """With a browser session send the CSRF token in the header X-CSRFToken."""

    code, http_status = "csrf_failed", 403


class ScopeMissing(Refusal):
    """The key lacks the scope for this."""

    code, http_status = "scope_missing", 403


class WrongMethod(Refusal):
    """This address does not take that method."""

    code, http_status = "wrong_method", 405


class TooLarge(Refusal):
    """The request is too large. Send less at once."""

    code, http_status = "too_large", 413


class NotJson(Refusal):
    """Send JSON, with the content type application/json."""

    code, http_status = "not_json", 415


class BadJson(Refusal):
    """The body is no JSON that can be read."""

    code, http_status = "bad_json", 400


class TooMany(Refusal):
    """Too many calls. Wait as long as Retry-After says."""

    code, http_status = "too_many_calls", 429


class KeyNotTaken(Refusal):
    """This takes no Idempotency-Key: what was done once is refused the second time, and says so."""

    code, http_status = "idempotency_key_not_taken", 400


def problem(refusal: Refusal, headers: dict[str, str] | None = None) -> HttpResponse:
    """The answer that says why nothing was done."""
    facts = {name: _plain(value) for name, value in refusal.facts.items() if name in _FACTS}
    hold = refusal.facts.get("hold")
    if isinstance(hold, Hold):
        facts["hold"] = hold_wire(hold)
    return _answer(refusal.http_status, refusal.code, clean_text(refusal.sentence), facts, headers or {})


def unexpected() -> HttpResponse:
    """A fault of ours; it was logged."""
    return _answer(500, "unexpected", "Something went wrong here. It was logged; try again.", {}, {})


def _answer(status: int, code: str, sentence: str, facts: dict[str, Any], headers: dict[str, str]) -> HttpResponse:
    told = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": sentence}
    response = JsonResponse(told | {"code": code} | facts, status=status, content_type=CONTENT_TYPE, headers=headers)
    response["Cache-Control"] = "no-store"
    return response


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return clean_text(value) if isinstance(value, str) else value

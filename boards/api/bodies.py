"""Reads the body of a request: JSON of a bounded size, depth and length of numbers, its texts storable. Never a 500."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from django.http import HttpRequest
from django.http.request import RawPostDataException

from boards.api.problems import BadJson, NotJson, TooLarge
from boards.stored_text import clean_text

MAX_BODY: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 64
MAX_DIGITS: Final = 300


def is_json(request: HttpRequest) -> bool:
    told = request.content_type or ""
    return told == "application/json" or told.endswith("+json")


def read_body(request: HttpRequest) -> dict[str, Any]:
    """The object that was sent, {} for no body. Raises NotJson, TooLarge, BadJson."""
    raw = _raw(request)
    if not raw:
        return {}
    if not is_json(request):
        raise NotJson
    try:
        value = json.loads(raw, parse_int=_whole, parse_float=_real, parse_constant=_constant)
    except BadJson:
        raise
    except (ValueError, RecursionError):  # of bytes that are no text, too
        raise BadJson from None
    cleaned = _cleaned(value, 1)
    if not isinstance(cleaned, dict):
        raise BadJson("Send a JSON object, with { first.")
    return cleaned


def _raw(request: HttpRequest) -> bytes:
    """Not more of it than may be is read."""
    told = request.META.get("CONTENT_LENGTH") or "0"
    if not (told.isascii() and told.isdigit()) or len(told) > 12 or int(told) > MAX_BODY:
        raise TooLarge(f"A request has at most {MAX_BODY:,} bytes. Send less at once.")
    try:
        raw = request.read(MAX_BODY + 1)
    except RawPostDataException:  # it was read as a form
        raise NotJson from None
    if len(raw) > MAX_BODY:
        raise TooLarge(f"A request has at most {MAX_BODY:,} bytes. Send less at once.")
    return bytes(raw)


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise BadJson(f"A number has at most {MAX_DIGITS} digits. Send longer ones as text.")
    return int(text)


def _real(text: str) -> float:
    value = float(text) if len(text) <= MAX_DIGITS else float("inf")
    if value in {float("inf"), float("-inf")}:
        raise BadJson("A number is too large or too long. Send it as text.")
    return value


def _constant(text: str) -> NoReturn:
    raise BadJson(f"{text} is no JSON.")


def _cleaned(value: Any, depth: int) -> Any:
    """The same with every text as the database can store and compare it."""
    if depth > MAX_DEPTH:
        raise BadJson(f"The body is nested more than {MAX_DEPTH} deep.")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_cleaned(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {clean_text(name): _cleaned(each, depth + 1) for name, each in value.items()}
    return value

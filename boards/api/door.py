"""The one view of the API: who asks, what is said, one call, the answer. It decides nothing of its own.

The scope of a key is asked before anything is looked up, so its refusal says nothing of what there is.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.csrf import csrf_exempt

from boards.api import waiting
from boards.api.bodies import read_body
from boards.api.callers import Caller, Waits, caller_of
from boards.api.operations import Answer, Call, Operation
from boards.api.problems import KeyNotTaken, NotSignedIn, ScopeMissing, WrongMethod, problem, unexpected
from boards.api.shapes import checked
from boards.errors import InvalidInput, NoRoute, Refusal
from boards.stored_text import clean_text

log = logging.getLogger(__name__)

MAX_KEY: Final = 200


class Door:
    """The view of one address: the operations that stand there, by method."""

    csrf_exempt = True  # a key needs no token; for a session `callers` asks for it

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.by_method = {operation.method: operation for operation in operations}

    def __call__(self, request: HttpRequest, **names: str) -> HttpResponse:
        try:
            response = self._answered(request, names)
        except Refusal as refusal:
            response = problem(refusal, _headers(refusal))
        except Exception:
            log.exception("The API failed at %s %s", request.method, request.path)
            response = unexpected()
        patch_vary_headers(response, ["Authorization", "Cookie"])
        return response

    def _answered(self, request: HttpRequest, names: dict[str, str]) -> HttpResponse:
        caller = caller_of(request, counts=not waiting.is_repeat(request))
        method = "GET" if request.method == "HEAD" else str(request.method)
        operation = {str(each): found for each, found in self.by_method.items()}.get(method)
        if operation is None:
            raise _NotThisMethod(sorted(self.by_method))
        _require_scope(caller, operation)
        answer = waiting.answered(request, operation, _call(request, operation, caller, names))
        return _shown(request, operation, answer)


class _NotThisMethod(WrongMethod):
    """This address does not take that method."""

    def __init__(self, methods: Sequence[str]) -> None:
        self.methods = methods
        super().__init__(f"This address takes {' and '.join(methods)}.")


@csrf_exempt
def no_route(request: HttpRequest, path: str = "") -> HttpResponse:
    """Whatever else is asked for under the API."""
    return problem(NoRoute())


def _require_scope(caller: Caller, operation: Operation) -> None:
    key = caller.chain.key
    if key is not None and operation.scope not in key.scopes:
        raise ScopeMissing(f"This key lacks the scope {operation.scope}, which {operation.name} takes.")


def _call(request: HttpRequest, operation: Operation, caller: Caller, names: Mapping[str, str]) -> Call:
    query = _query(request, operation)
    key = clean_text(request.headers.get("Idempotency-Key", ""))
    if operation.reads:
        key = ""
    if key and not operation.repeats:
        raise KeyNotTaken
    if len(key) > MAX_KEY:
        raise InvalidInput(f"Idempotency-Key is longer than {MAX_KEY} characters.", field="idempotency_key")
    body = None if operation.reads or operation.body is None else checked(operation.body, read_body(request))
    cleaned = {name: clean_text(value) for name, value in names.items()}
    return Call(caller.chain, caller.member, cleaned, query, body, key)


def _query(request: HttpRequest, operation: Operation) -> Any:
    given = {clean_text(name): clean_text(values[-1]) for name, values in request.GET.lists()}
    if operation.query is None:
        if given:
            raise InvalidInput(f"{next(iter(given))[:100]} is no parameter of {operation.name}. Leave it out.")
        return None
    return checked(operation.query, given)


def _shown(request: HttpRequest, operation: Operation, answer: Answer) -> HttpResponse:
    if not operation.reads:
        written = JsonResponse(answer.told, status=operation.status, headers={"Cache-Control": "no-store"})
        if answer.location:
            written["Location"] = answer.location
        return written
    body = json.dumps(answer.told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    known = {part.strip().removeprefix("W/") for part in request.headers.get("If-None-Match", "").split(",")}
    fresh = tag in known or "*" in known
    response = HttpResponse(b"" if fresh else body, status=304 if fresh else 200, content_type="application/json")
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    return response


def _headers(refusal: Refusal) -> dict[str, str]:
    if refusal.http_status == 401:
        return {"WWW-Authenticate": 'Bearer realm="Orchestra"'}
    if isinstance(refusal, Waits):
        return {"Retry-After": str(refusal.seconds)}
    if isinstance(refusal, _NotThisMethod):
        return {"Allow": ", ".join(refusal.methods)}
    return {}


__all__ = ["Door", "NotSignedIn", "no_route"]

"""`/metrics`: who may read which figures, and the answer where the database is away (spec: 09 section 2).

Read by METRICS_TOKEN (all of it), by a key with the scope Read of an operator, or by a signed-in operator. The latter
two read of the boards that they operate; a member does not, since on a board that is kept apart by user the figures
count the rows of others.
"""

from __future__ import annotations

import logging
from typing import Final

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from boards import keys
from boards.measured import here
from boards.models import Board, Role, Scope
from boards.queries import metrics as figures
from boards.web.metric_families import exposition

log = logging.getLogger(__name__)

_REFUSED_A_MINUTE: Final = 60  # wrong tokens and keys from one address


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@require_safe
@never_cache
@vary_on_headers("Authorization", "Cookie")
def metrics(request: HttpRequest) -> HttpResponse:
    """200 with the figures. Without the database, METRICS_TOKEN still reads `orchestra_up 0`; others get 503."""
    try:
        board_ids = _boards_of(request)
    except _Refused as refused:
        return _in_words(refused.status, str(refused))
    except DatabaseError as error:
        log.warning("Nobody can be let in to the metrics while the database is away: %s", error)
        return _in_words(503, "The database does not answer.")
    try:
        ledger = figures.ledger(board_ids)
    except DatabaseError as error:
        log.warning("The figures of the ledger could not be read: %s", error)
        ledger = None
    return HttpResponse(exposition(ledger, here), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _boards_of(request: HttpRequest) -> frozenset[int] | None:
    """Whose figures may be told to whoever asks; None: those of all boards. Raises _Refused."""
    if "Authorization" in request.headers:
        return _boards_of_bearer(request)
    if not request.user.is_authenticated:
        raise _Refused(401, "Show METRICS_TOKEN or a key as a bearer token, or sign in as an operator.")
    if request.user.is_superuser:
        return None
    mine = Board.objects.filter(space__members__user=request.user.pk, space__members__role=Role.OPERATOR)
    if not request.user.memberships.filter(role=Role.OPERATOR).exists():
        raise _Refused(403, "Operators read the metrics. Ask one, or have METRICS_TOKEN set.")
    return frozenset(mine.values_list("pk", flat=True))


@sensitive_variables("header", "secret")
def _boards_of_bearer(request: HttpRequest) -> frozenset[int] | None:
    scheme, _space, secret = request.headers["Authorization"].partition(" ")
    secret = secret.strip() if scheme.lower() == "bearer" else ""
    if settings.METRICS_TOKEN and constant_time_compare(secret, settings.METRICS_TOKEN):
        return None
    key = keys.find(secret)
    if key is None:
        _wait(f"refused:{request.META.get('REMOTE_ADDR', '')}", _REFUSED_A_MINUTE)
        raise _Refused(401, "This token does not count: it is none, or it was revoked, or its time is over.")
    _wait(f"key:{key.pk}", settings.API_CALLS_PER_MINUTE)
    if Scope.READ not in key.scopes:
        raise _Refused(403, "This key lacks the scope read, which the metrics take.")
    if key.member.role != Role.OPERATOR:
        raise _Refused(403, "The metrics take a key of an operator.")
    chain = keys.chain_of(key)
    ids = Board.objects.filter(space=key.member.space_id).values_list("pk", flat=True)
    return frozenset(pk for pk in ids if chain.sees_board(pk))


def _wait(caller: str, most: int) -> None:
    """As the API counts them. Raises _Refused."""
    if seconds := keys.seconds_to_wait(caller, most):
        raise _Refused(429, f"Too many calls. Try again in {seconds} s.")


def _in_words(status: int, sentence: str) -> HttpResponse:
    response = HttpResponse(f"{sentence}\n", status=status, content_type="text/plain; charset=utf-8")
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="Orchestra"'
    return response

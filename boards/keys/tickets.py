"""Tickets as outside workers hold them: opaque tokens, signed, good with the one key that claimed (spec: 02, 4.1).

A token names an attempt and a grant, and is signed over every field of the ticket and the key's id; the other fields
are read from the row and judged by the signature, so a token is short and says nothing. It is stored nowhere: whoever
claims is told it once, and a repeat of the claim under its idempotency key makes it again.
"""

from __future__ import annotations

import re
from typing import Final

from django.core.signing import BadSignature, Signer
from django.views.decorators.debug import sensitive_variables

from boards import errors
from boards.models import Attempt
from boards.tasks import Ticket

MARK: Final = "orkt_"  # what masking, and whoever finds one in a file, knows it by
LONGEST: Final = 120
_SHAPE: Final = re.compile(r"orkt_([0-9a-z]{1,13})-([0-9a-z]{1,13})-([A-Za-z0-9_-]{43})")
_SIGNER: Final = "boards.keys.tickets"
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_BIGGEST: Final = 2**63 - 1
# What no check of a ticket needs, and may be megabytes.
LONG_FIELDS: Final = ("goal", "context", "input", "output", "metadata", "error", "feedback", "write_log")
_ATTEMPTS: Final = Attempt.objects.select_related("task__board").defer(
    "output", "steps", "spend", *(f"task__{name}" for name in LONG_FIELDS)
)


@sensitive_variables("signed")
def sealed(ticket: Ticket, key_id: int) -> str:
    """The token of this ticket for the key that claimed."""
    signed = Signer(salt=_SIGNER).signature(_told(ticket, key_id))
    return f"{MARK}{_in_36(ticket.attempt_key)}-{_in_36(ticket.grant_no)}-{signed}"


@sensitive_variables("token", "signature")
def unsealed(token: str, key_id: int) -> tuple[Ticket, Attempt]:
    """The ticket behind a token, and its attempt with the `task` and its `board`.

    Raises TicketRefused, the same for one that was forged, cut, claimed with another key, or whose task is gone.
    """
    found = _SHAPE.fullmatch(token) if len(token) <= LONGEST else None
    if found is None:
        raise errors.TicketRefused
    attempt_key, grant_no, signature = int(found[1], 36), int(found[2], 36), found[3]
    if max(attempt_key, grant_no) > _BIGGEST:
        raise errors.TicketRefused
    attempt = _ATTEMPTS.filter(pk=attempt_key).first()
    if attempt is None:
        raise errors.TicketRefused
    ticket = _ticket(attempt, grant_no)
    try:  # Django compares in constant time, with the secrets that were in use before, too
        Signer(salt=_SIGNER).unsign(f"{_told(ticket, key_id)}:{signature}")
    except BadSignature:
        raise errors.TicketRefused from None
    return ticket, attempt


def _ticket(attempt: Attempt, grant_no: int) -> Ticket:
    task = attempt.task
    return Ticket(
        board_id=task.board_id,
        partition=task.partition,
        task_key=task.pk,
        attempt_key=attempt.pk,
        task_id=task.public_id,
        attempt=attempt.number,
        grant_no=grant_no,
        created_at=task.created_at,
        incarnation_id=task.incarnation_id,
    )


def _told(ticket: Ticket, key_id: int) -> str:
    """Every field, each with a length before it where it could hold the sign between them."""
    parts = [
        key_id,
        ticket.board_id,
        f"{len(ticket.partition)}={ticket.partition}",
        ticket.task_key,
        ticket.attempt_key,
        f"{len(ticket.task_id)}={ticket.task_id}",
        ticket.attempt,
        ticket.grant_no,
        ticket.created_at.isoformat(),
        ticket.incarnation_id,
    ]
    return "/".join(map(str, parts))


def _in_36(number: int) -> str:
    told = ""
    while number:
        number, digit = divmod(number, 36)
        told = _DIGITS[digit] + told
    return told or "0"

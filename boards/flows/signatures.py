"""Signatures of incoming webhooks by the rules of Standard Webhooks: HMAC-SHA256 of id, time and body. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

TOLERANCE: Final = timedelta(minutes=5)
PREFIX: Final = "whsec_"
_MOST_SIGNATURES: Final = 10
_ID: Final = re.compile(r"[!-~]{1,200}")
_TIME: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


def is_signed(keys: Iterable[str], message_id: str, timestamp: str, signatures: str, body: bytes) -> bool:
    """Whether one of the signatures is right under one of the keys. Its time is for `is_timely`."""
    if not _ID.fullmatch(message_id) or not _TIME.fullmatch(timestamp):
        return False
    given = [_decoded(each[3:]) for each in signatures.split()[:_MOST_SIGNATURES] if each.startswith("v1,")]
    right = False
    for key in keys:
        signed = f"{message_id}.{timestamp}.".encode() + body
        digest = hmac.new(base64.b64decode(key.removeprefix(PREFIX)), signed, hashlib.sha256).digest()
        for each in given:
            right |= hmac.compare_digest(digest, each)
    return right


def is_timely(timestamp: str, now: datetime) -> bool:
    """Whether the message was signed at most five minutes before `now`, or after it by a sender's clock."""
    return abs(now.timestamp() - int(timestamp)) <= TOLERANCE.total_seconds()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""

"""The text of a key: how it is made, and what is kept of it; pure."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

MARK: Final = "ork_"  # what masking, and whoever finds one in a file, knows it by
SHOWN: Final = len(MARK) + 6  # signs of it that people see beside its name
_BYTES: Final = 32


def new_secret() -> str:
    """256 random bits: too many to be guessed, so one plain hash of it is enough to keep."""
    return MARK + secrets.token_urlsafe(_BYTES)


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def prefix_of(secret: str) -> str:
    return secret[:SHOWN]

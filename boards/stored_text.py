"""Makes any text storable: NUL bytes and lone surrogates become the replacement character; pure (spec: 01)."""

from __future__ import annotations

import json
import re
from typing import Any

_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False)
_SURROGATES = re.compile("[\ud800-\udfff]")
# A NUL inside a JSON string is written as an escape, which jsonb refuses; an escaped backslash before it is not one.
_NUL_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def clean_text(value: str) -> str:
    """The text as it can be stored."""
    if value.isascii() and "\x00" not in value:
        return value
    return _SURROGATES.sub("\ufffd", value.replace("\x00", "\ufffd"))


def clean_json_text(value: Any) -> str:
    """The value as JSON text that jsonb accepts. Raises TypeError, ValueError or RecursionError where it is no JSON."""
    text = _ENCODER.encode(value)
    if "\\u0000" not in text:
        return clean_text(text)
    return clean_text(_NUL_ESCAPE.sub(r"\1\\ufffd", text))

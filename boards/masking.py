"""Masks secrets of known shapes in what workers hand in, before it is stored; pure (spec: 09 section 3).

A mask keeps the first signs, so that a person can tell which secret leaked; the rest is gone for good. It errs on the
side of leaving text alone: only shapes that nothing else has are masked.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "…[masked]"

# Each shape: a text that must be there at all, which costs next to nothing to look for, then what stays and what goes.
# None of them can cross the end of a JSON string or a line of text, save the body of a private key, whose lines are one
# JSON string.
_SHAPES: Final = tuple(
    (trigger, re.compile(shape))
    for trigger, shape in (
        (
            " KEY-----",
            r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[^\"-]{20,20000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?",
        ),
        ("://", r"(://[^\s:/@\"'\\<>]{0,100}:)[^\s:/@\"'\\<>]{1,200}(?=@)"),
        ("earer ", r"(\b[Bb]earer )[A-Za-z0-9._~+/=-]{16,}"),
        ("asic ", r"(\b[Bb]asic )[A-Za-z0-9+/=]{16,}(?![a-z])"),
        ("gh", r"(\bgh[opsur]_)[A-Za-z0-9]{22,}"),
        ("github_pat_", r"(\bgithub_pat_)[A-Za-z0-9_]{22,}"),
        ("glpat-", r"(\bglpat-)[A-Za-z0-9_-]{20,}"),
        ("xox", r"(\bxox[abeoprs]-)[A-Za-z0-9-]{10,}"),
        ("hooks.slack.com/", r"(\bhooks\.slack\.com/services/)[A-Za-z0-9/]{20,}"),
        ("sk-", r"(\bsk-(?:ant-|proj-)?)[A-Za-z0-9_-]{20,}"),
        ("k_", r"(\b[rs]k_(?:live|test)_)[A-Za-z0-9]{16,}"),
        ("A", r"(\b(?:AKIA|ASIA))[A-Z0-9]{16}\b"),
        ("AIza", r"(\bAIza)[A-Za-z0-9_-]{35}"),
        ("npm_", r"(\bnpm_)[A-Za-z0-9]{30,}"),
        ("pypi-", r"(\bpypi-)[A-Za-z0-9_-]{30,}"),
        ("hf_", r"(\bhf_)[A-Za-z0-9]{30,}"),
        ("eyJ", r"(\beyJ)[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,}"),
        ("ork_", r"(\bork_)[A-Za-z0-9_-]{20,}"),
        ("orkt_", r"(\borkt_)[A-Za-z0-9_-]{20,}"),
        ("whsec_", r"(\bwhsec_)[A-Za-z0-9+/=]{20,}"),
    )
)


def masked(text: str) -> str:
    """The text, or JSON text, with every secret of a known shape masked."""
    for trigger, shape in _SHAPES:
        if trigger in text:
            text = shape.sub(rf"\1{MASK}", text)
    return text

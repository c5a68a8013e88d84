"""Keys by which agents act for members (spec: 06 section 6). The only writer of keys and of callers' counts.

A key is shown once; the database holds a hash. What it lets its agent do is decided by `boards.policy` and the engines,
from the chain that `chain_of` builds for each call.
"""

from boards.keys.limits import forget_counts, seconds_to_wait
from boards.keys.making import KeyFields, make, rotate
from boards.keys.revoking import revoke
from boards.keys.showing import chain_of, find, looks_like_key
from boards.keys.standing import require_standing
from boards.keys.tickets import LONG_FIELDS, sealed, unsealed

__all__ = [
    "LONG_FIELDS",
    "KeyFields",
    "chain_of",
    "find",
    "forget_counts",
    "looks_like_key",
    "make",
    "require_standing",
    "revoke",
    "rotate",
    "sealed",
    "seconds_to_wait",
    "unsealed",
]

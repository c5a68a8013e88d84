"""Judges values by JSON schemas that workers and authors wrote: nothing is fetched, nothing but BadSchema escapes.

Pure. A schema is hostile text like any other (spec: 08 section 4): one that refers to another address, to itself for
ever, or that is no schema at all is a sentence, never a request of ours nor a broken page.
"""

from __future__ import annotations

from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

# An own registry: the library's default one goes and fetches whatever address a `$ref` names.
_NOTHING_ELSEWHERE: Final[Registry[Any]] = Registry()


class BadSchema(ValueError):
    """The schema cannot judge anything. The text says why, as a sentence."""


def mismatch(schema: Any, value: Any, name: str) -> str:
    """What a board's schema has against the value: a sentence with the place; "" where nothing, or no schema."""
    if schema is None:
        return ""
    try:
        found = faults(schema, value)
    except BadSchema as bad:
        return f"The {name} cannot be judged by the board's schema. {bad}"
    for fault in found:
        place = "/".join(str(part) for part in fault.absolute_path)
        return f"The {name} does not match the board's schema at {name}/{place}: {fault.message[:500]}"
    return ""


def faults(schema: Any, value: Any) -> list[ValidationError]:
    """What the schema has against the value, empty where nothing. Raises BadSchema."""
    try:
        Draft202012Validator.check_schema(schema)
        return list(Draft202012Validator(schema, registry=_NOTHING_ELSEWHERE).iter_errors(value))
    except SchemaError as error:
        raise BadSchema(f"The schema is no JSON schema: {error.message[:300]}.") from None
    except Unresolvable:
        raise BadSchema("The schema refers to something that is not in it.") from None
    except RecursionError:
        raise BadSchema("The schema refers to itself for ever.") from None
    except Exception as error:  # a pattern that is none, a rule of the wrong type: the library lets these through
        raise BadSchema(f"The schema cannot be used: {error}."[:300]) from None

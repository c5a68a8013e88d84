"""Reads a form that was made from a JSON schema: typed values, or the fields again with what was wrong (spec: 04, 05).

Translation only: a control's text becomes the JSON value that its schema means. Whether the values match is for the
schema to say; its complaints are put to the field they are about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import QueryDict
from django.utils.translation import gettext as _
from jsonschema import ValidationError

from boards import schemas
from boards.errors import Refusal
from boards.queries.schema_fields import Field, fields_of

PREFIX: Final = "in."


@dataclass(frozen=True, slots=True)
class Filled:
    """`values` are ready where `ok`; else `fields` carry what was typed and a sentence each, `problem` the rest."""

    fields: tuple[Field, ...]
    values: dict[str, Any]
    problem: str = ""

    @property
    def ok(self) -> bool:
        return not self.problem and not any(field.error for field in self.fields)


def read_inputs(schema: Any, form: QueryDict, order: Sequence[str] = ()) -> Filled:
    """What was typed into the fields of an object schema; a field left empty is left out."""
    fields, values = [], {}
    for field in fields_of(schema, order=order):
        typed = _typed(field, form)
        field = replace(field, value=typed)
        try:
            if typed.strip() or field.kind == "yesno":
                values[field.name] = _READERS.get(field.kind, _text)(typed)
        except ValueError as error:
            field = replace(field, error=str(error))
        fields.append(field)
    return _judged(tuple(fields), values, schema)


def read_json(text: str, schema: Any = None) -> dict[str, Any]:
    """An object written as JSON; ValueError with a sentence otherwise, and where a schema is against it."""
    value = _json(text or "{}")
    if not isinstance(value, dict):
        raise ValueError(_("Write a JSON object, with { first."))  # noqa: TRY004 (a fault of the text)
    if schema is not None and (wrong := schemas.faults(schema, value)):
        raise ValueError(_sentence(wrong[0]))
    return value


def told(fields: tuple[Field, ...], refusal: Refusal) -> tuple[tuple[Field, ...], str]:
    """The fields with the engine's sentence about each, and what it said of none of them."""
    faults = refusal.facts.get("fields")
    by_name = faults if isinstance(faults, dict) else {}
    marked = tuple(replace(field, error=str(by_name.get(field.name, ""))) for field in fields)
    known = {field.name for field in fields}
    rest = " ".join(str(words) for name, words in by_name.items() if name not in known)
    return marked, rest if by_name else refusal.sentence


def _judged(fields: tuple[Field, ...], values: dict[str, Any], schema: Any) -> Filled:
    if any(field.error for field in fields) or not isinstance(schema, dict):
        return Filled(fields, values)
    wrong: dict[str, str] = {}
    rest = ""
    try:
        errors = schemas.faults(schema, values)
    except schemas.BadSchema as bad:
        return Filled(fields, values, str(bad))
    for error in errors:
        name = _about(error)
        if name in {field.name for field in fields}:
            wrong.setdefault(name, _sentence(error))
        else:
            rest = rest or _sentence(error)
    return Filled(tuple(replace(f, error=wrong.get(f.name, "")) for f in fields), values, rest)


def _about(error: ValidationError) -> str:
    if error.validator == "required":
        missing = [name for name in _listed(error.validator_value) if name not in _listed(error.instance)]
        return str(missing[0]) if missing else ""
    return str(error.absolute_path[0]) if error.absolute_path else ""


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | dict) else []


def _sentence(error: ValidationError) -> str:
    rule = error.validator_value
    said: Mapping[str, Callable[[], str]] = {
        "required": lambda: _("This is needed."),
        "minLength": lambda: _("Write at least %(n)s characters.") % {"n": rule},
        "maxLength": lambda: _("This is longer than %(n)s characters.") % {"n": rule},
        "minimum": lambda: _("This must be at least %(n)s.") % {"n": rule},
        "maximum": lambda: _("This must be at most %(n)s.") % {"n": rule},
        "pattern": lambda: _("This does not have the form that is asked for (%(n)s).") % {"n": rule},
        "enum": lambda: _("Choose one of: %(n)s.") % {"n": ", ".join(map(str, _listed(rule)))},
    }
    return said[str(error.validator)]() if str(error.validator) in said else f"{error.message[:300]}."


def _typed(field: Field, form: QueryDict) -> str:
    given = form.getlist(f"{PREFIX}{field.name}")
    return "\n".join(given) if field.kind == "many" else (given[-1] if given else "")


def _text(typed: str) -> Any:
    return typed.replace("\r\n", "\n")


def _number(kind: Callable[[str], Any], sentence: str) -> Callable[[str], Any]:
    def reader(typed: str) -> Any:
        try:
            value = kind(typed.strip().replace("\N{MINUS SIGN}", "-"))
        except ValueError:
            raise ValueError(_(sentence)) from None
        if value != value or value in {float("inf"), float("-inf")}:
            raise ValueError(_(sentence))
        return value

    return reader


def _json(typed: str) -> Any:
    try:
        return json.loads(typed)
    except (ValueError, RecursionError) as error:
        where = f" {error}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(_("This is not JSON.") + where) from None


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "integer": _number(int, "Write a whole number."),
    "number": _number(float, "Write a number."),
    "yesno": lambda typed: bool(typed),
    "many": lambda typed: typed.split("\n"),
    "json": _json,
}

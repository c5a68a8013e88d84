"""The form that a JSON schema asks for: one field per property (spec: 04 section 1, 05 section 1).

Pure. A schema that is no plain object answers no fields, and its page shows a JSON editor; a single property that no
control fits becomes a JSON field. Whether values match is judged by the schema itself, never here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LONG: Final = 200


@dataclass(frozen=True, slots=True)
class Field:
    """One control. `kind`: text, long, number, integer, choice, many, yesno, date, file or json.

    `value` is what stands in the control: the default, a stored value, or what was typed. `error`: a sentence, or "".
    """

    name: str
    label: str
    kind: str
    description: str = ""
    required: bool = False
    options: tuple[tuple[str, str], ...] = ()
    value: str = ""
    error: str = ""

    @property
    def chosen(self) -> tuple[str, ...]:
        """The chosen values of a `many` field."""
        return tuple(self.value.split("\n")) if self.value else ()


def fields_of(schema: Any, values: Mapping[str, Any] | None = None, order: Sequence[str] = ()) -> tuple[Field, ...]:
    """The fields of an object schema, filled from `values` where given, else from the defaults.

    `order`: the names in their author's order, where it is known; else required ones come first.
    """
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return ()
    given = schema.get("required")
    required: Sequence[Any] = given if isinstance(given, list) else []
    names = [str(name) for name in schema["properties"]]
    asked = {str(name) for name in required}
    # The database does not keep the order of an object's names; that of a list it does.
    told = [str(name) for name in (order or required) if str(name) in names]
    return tuple(
        _field(name, schema["properties"][name], name in asked, values) for name in dict.fromkeys([*told, *names])
    )


def as_typed(value: Any, kind: str) -> str:
    """A stored value as it stands in its control."""
    if value is None:
        return ""
    if kind == "yesno":
        return "yes" if value else ""
    if kind == "many" and isinstance(value, list):
        return "\n".join(str(item) for item in value)
    if isinstance(value, str) and kind != "json":
        return value
    return json.dumps(value, ensure_ascii=False, indent=2 if kind == "json" else None)


def kind_of(rule: Mapping[str, Any]) -> str:
    """The control that fits a property."""
    if isinstance(rule.get("enum"), list):
        return "choice"
    kinds = {
        "integer": "integer",
        "number": "number",
        "boolean": "yesno",
        "array": "json",
        "object": "json",
        "null": "json",
    }
    type_ = rule.get("type", "string")
    if type_ == "array" and isinstance(rule.get("items"), dict) and isinstance(rule["items"].get("enum"), list):
        return "many"
    if isinstance(type_, str) and type_ in kinds:
        return kinds[type_]
    if not isinstance(type_, str) or "$ref" in rule or "anyOf" in rule or "oneOf" in rule:
        return "json"
    by_format = {"date": "date", "file": "file", "multiline": "long", "textarea": "long", "markdown": "long"}
    most = rule.get("maxLength")
    long_ = isinstance(most, int) and most > _LONG
    return by_format.get(str(rule.get("format", "")), "long" if long_ else "text")


def _field(name: str, rule: Any, required: bool, values: Mapping[str, Any] | None) -> Field:
    rule = rule if isinstance(rule, dict) else {}
    kind = kind_of(rule)
    value = rule.get("default") if values is None or name not in values else values[name]
    options = rule.get("items", {}).get("enum", []) if kind == "many" else rule.get("enum", [])
    return Field(
        name=name,
        label=str(rule.get("title") or _words(name)),
        kind=kind,
        description=str(rule.get("description") or ""),
        required=required and kind != "yesno",
        options=tuple((as_typed(option, "text"), str(option)) for option in options)
        if kind in {"choice", "many"}
        else (),
        value=as_typed(value, kind),
    )


def _words(name: str) -> str:
    return name.replace("_", " ").strip().capitalize() or name

"""Inputs of a run that are made from templates: those of a `call`, and those of a webhook. Pure."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from boards.flows import templating


def rendered(templates: Mapping[str, Any], schema: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs. A template makes text; where the schema wants another type, that is read as JSON.

    Raises TemplatingError with a sentence.
    """
    properties = schema.get("properties") or {}
    made: dict[str, Any] = {}
    for name, told in templates.items():
        made[name] = templating.render(told, known) if isinstance(told, str) else told
        wanted = (properties.get(name) or {}).get("type", "string") if isinstance(properties.get(name), dict) else ""
        if isinstance(told, str) and wanted not in ("string", ""):
            with contextlib.suppress(ValueError, RecursionError):  # what is no JSON is judged by the schema, in words
                made[name] = json.loads(made[name])
    return made

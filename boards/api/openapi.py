"""The OpenAPI 3.1 document, made from the operations; `docs/openapi.json` is a copy that a test compares."""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from boards.api.operations import OPERATIONS, Operation

ROOT: Final = "/api/v1"
_REF: Final = "#/components/schemas/{model}"
_PARTS: Final = {
    "board": "A board's slug, or its number.",
    "task": "A task's id.",
    "hold": "A question's number.",
    "flow": "A flow's key.",
    "run": "A run's number within its flow.",
}
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "RFC 9457 problem details. Match `code`; `detail` is a sentence for the reader.",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "field": {"type": "string"},
        "index": {"type": "integer", "description": "Of a batch: which task it is about, from 0."},
        "reason": {"type": ["string", "null"], "description": "Why a write was declined."},
        "status_seen": {"type": "string", "description": "The status that was seen inside the write."},
        "hold": {"$ref": "#/components/schemas/HoldTold", "description": "How the question stands now."},
    },
    "additionalProperties": True,
}


def document() -> dict[str, Any]:
    """The whole document, as plain JSON, in the same order each time."""
    models, schemas = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, models)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Orchestra",
            "version": "1",
            "description": "People and agents share one board of work. The same verbs as the pages.",
        },
        "servers": [{"url": ROOT}],
        "security": [{"key": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": _PROBLEM},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key that a member made."},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "sessionid",
                    "description": "The browser's session; writes send X-CSRFToken as well.",
                },
            },
        },
    }


@functools.cache
def text() -> str:
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


@require_safe
def served(request: HttpRequest) -> HttpResponse:
    """The document, for everybody: it says what can be asked, and nothing of what there is."""
    return HttpResponse(text(), content_type="application/json", headers={"Cache-Control": "no-cache"})


def _schemas() -> tuple[dict[type[BaseModel], Any], dict[str, Any]]:
    inputs = {each.body for each in OPERATIONS if each.body is not None}
    answers = {each.answer for each in OPERATIONS}
    named = sorted([(model, "validation") for model in inputs | answers], key=lambda pair: pair[0].__name__)
    refs, definitions = models_json_schema(named, ref_template=_REF)  # type: ignore[arg-type]
    found: dict[type[BaseModel], Any] = {model: refs[model, mode] for model, mode in named}  # type: ignore[index]
    return found, dict(sorted(definitions.get("$defs", {}).items()))


def _operation(each: Operation, models: dict[type[BaseModel], Any]) -> dict[str, Any]:
    answer = {"description": "Done.", "content": {"application/json": {"schema": models[each.answer]}}}
    told: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "description": f"{each.description} A key needs the scope `{each.scope}`.",
        "tags": list(each.tags),
        "parameters": [*_path_parts(each), *_query_parts(each), *_header_parts(each)],
        "responses": {
            str(each.status): answer,
            **({"304": {"description": "As it was read before (If-None-Match)."}} if each.reads else {}),
            "default": {
                "description": "Refused; nothing was written.",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if each.body is not None:
        told["requestBody"] = {
            "required": any(field.is_required() for field in each.body.model_fields.values()),
            "content": {"application/json": {"schema": models[each.body]}},
        }
    return told


def _path_parts(each: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "description": _PARTS[name], "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", each.path)
    ]


def _query_parts(each: Operation) -> list[dict[str, Any]]:
    if each.query is None:
        return []
    fields = each.query.model_json_schema()["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            **({"description": schema["description"]} if "description" in schema else {}),
            "schema": {key: value for key, value in schema.items() if key not in {"title", "description"}},
        }
        for name, schema in fields.items()
    ]


def _header_parts(each: Operation) -> list[dict[str, Any]]:
    if not each.repeats:
        return []
    words = "A repeat under the same key answers the first result; kept for seven days."
    schema = {"type": "string", "maxLength": 200}
    return [{"name": "Idempotency-Key", "in": "header", "required": False, "description": words, "schema": schema}]

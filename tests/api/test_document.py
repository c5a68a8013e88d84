"""The OpenAPI document is served, kept in the repository, and says what the routes do."""

from __future__ import annotations

import json
from pathlib import Path

from django.test import Client
from jsonschema.validators import Draft202012Validator

from boards.api import openapi
from boards.api.operations import OPERATIONS
from boards.api.urls import REGISTERED

KEPT = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"


def test_the_kept_document_is_that_of_the_code() -> None:
    assert REGISTERED
    assert KEPT.read_text(encoding="utf-8") == openapi.text(), "Keep what GET /api/v1/openapi.json answers."


def test_it_is_served_to_everybody(client: Client) -> None:
    response = client.get("/api/v1/openapi.json")
    assert response.status_code == 200
    assert json.loads(response.content) == openapi.document()


def test_it_names_every_operation_once() -> None:
    told = [operation["operationId"] for path in openapi.document()["paths"].values() for operation in path.values()]
    assert sorted(told) == sorted({each.name for each in OPERATIONS})
    assert len(told) == len(OPERATIONS)


def test_every_reference_leads_somewhere() -> None:
    schemas = openapi.document()["components"]["schemas"]
    refs = {part.split('"')[0] for part in openapi.text().split("#/components/schemas/")[1:]}
    assert refs <= schemas.keys()


def test_every_schema_is_one() -> None:
    for name, schema in openapi.document()["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert schema.get("type") == "object", name

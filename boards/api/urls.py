"""Addresses under /api/v1/: one for each path of the operations, the document, and an answer for everything else."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final

from django.urls import URLPattern, path, re_path

from boards.api import boards, flows, holds, openapi, tasks, work
from boards.api.door import Door, no_route
from boards.api.operations import OPERATIONS, Operation

app_name = "api"
REGISTERED: Final = (boards, flows, holds, tasks, work)  # each registers its operations


def _routes() -> list[URLPattern]:
    by_path = sorted(OPERATIONS, key=lambda each: each.path)
    return [_route(where, list(group)) for where, group in groupby(by_path, key=lambda each: each.path)]


def _route(where: str, operations: list[Operation]) -> URLPattern:
    """Named by the operation that reads there, else by the first."""
    name = next((each.name for each in operations if each.reads), operations[0].name)
    address = re.sub(r"{(\w+)}", r"<str:\1>", where).lstrip("/")
    return path(address, Door(operations), name=name)


urlpatterns: list[URLPattern] = [
    path("openapi.json", openapi.served, name="openapi"),
    *_routes(),
    re_path(r"^(?P<path>.*)$", no_route, name="no_route"),
]

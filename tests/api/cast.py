"""The cast of the API's tests: Anna's desk with its people, a flow on it, and keys of Anna's by their scopes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.test import Client
from jsonschema.validators import Draft202012Validator

from boards import flows, keys, people, tasks
from boards.api import openapi
from boards.api import urls as _routes
from boards.api.operations import Operation
from boards.models import AgentKey, Board, Flow, FlowRun, Hold, Member, Role, Task
from tests import cast

assert _routes.REGISTERED  # the operations are known

ROOT = "/api/v1"
EVERYTHING = ("read", "file", "decide", "admin")

PLAIN_FLOW = """
key: cards
name: Cards
steps:
  - {key: todo, name: To do}
  - {key: doing, name: Doing}
  - {key: done, name: Done, terminal: true}
"""
ASKING_FLOW = """
key: gated
name: Gated
steps:
  - {key: begin, name: Begin}
  - {key: gate, name: A yes, kind: approval, prompt: "May it go on?"}
  - {key: done, name: Done, terminal: true}
"""


@dataclass(frozen=True)
class Answered:
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def code(self) -> str:
        return str(self.body.get("code", "")) if isinstance(self.body, dict) else ""

    @property
    def detail(self) -> str:
        return str(self.body["detail"])


class Caller:
    """Calls the API as somebody: by a key, or signed in (writes then bring the CSRF token), or as nobody."""

    def __init__(self, secret: str = "", member: Member | None = None) -> None:
        self.client = Client(enforce_csrf_checks=True)
        self.headers: dict[str, str] = {"Authorization": f"Bearer {secret}"} if secret else {}
        if member is not None:
            self.client.force_login(member.user)
            page = HttpRequest()
            self.headers["X-CSRFToken"] = get_token(page)
            self.client.cookies["csrftoken"] = page.META["CSRF_COOKIE"]  # as any page sets it

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str = "",
        raw: bytes | None = None,
        content_type: str = "application/json",
        **headers: str,
    ) -> Answered:
        told = self.headers | ({"Idempotency-Key": key} if key else {}) | headers
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        response = self.client.generic(method, ROOT + path, data, content_type if data else "", headers=told)
        is_json = "json" in response.headers.get("Content-Type", "")
        shown = json.loads(response.content) if is_json and response.content else response.content
        return Answered(response.status_code, shown, response.headers)


class Desk:
    """Anna and Ben are members, Vera views, Olga operates; Mallory is of another space, Nemo of none."""

    def __init__(self) -> None:
        self.space = cast.make_space()
        self.anna = cast.make_member(self.space, "anna")
        self.ben = cast.make_member(self.space, "ben")
        self.vera = cast.make_member(self.space, "vera", Role.VIEWER)
        self.olga = cast.make_member(self.space, "olga", Role.OPERATOR)
        self.board = cast.make_board(self.space)
        self.attic = cast.make_board(self.space, "attic")
        self.mallory = cast.make_member(cast.make_space("other"), "mallory", Role.OPERATOR)
        self.chain = cast.chain_of(self.anna)

    def key(
        self, *scopes: str, of: Member | None = None, name: str = "bot", boards: Sequence[Board] | None = None
    ) -> tuple[AgentKey, str]:
        fields = keys.KeyFields(name, scopes, None if boards is None else [board.pk for board in boards])
        return keys.make(cast.chain_of(of or self.anna), fields)

    def by_key(self, *scopes: str, **options: Any) -> Caller:
        return Caller(self.key(*scopes, **options)[1])

    def signed_in(self, member: Member | None = None) -> Caller:
        return Caller(member=member or self.anna)

    def filed(self, **fields: Any) -> Task:
        return cast.filed(self.board, self.chain, **fields)

    def handed_in(self, **fields: Any) -> Task:
        task = self.filed(checker="person", **fields)
        claimed = cast.claimed(self.board)
        assert claimed.task.pk == task.pk
        tasks.complete(cast.agent_chain(self.board), task, {"text": "Done"}, claim=claimed.ticket)
        return cast.fresh(task)

    def stuck(self, **fields: Any) -> Task:
        task = self.filed(**fields)
        claimed = cast.claimed(self.board)
        assert claimed.task.pk == task.pk
        tasks.fail(cast.agent_chain(self.board), task, "There is no such file.", claim=claimed.ticket)
        return cast.fresh(task)

    def asked(self, kind: str = "approval", **question: Any) -> Hold:
        self.filed()
        got = cast.claimed(self.board)
        ask = {"prompt": "Shall it go out?", "draft": "Dear all" if kind in {"approval", "gate"} else None, **question}
        hold = people.open_hold(cast.agent_chain(self.board), claim=got.ticket, kind=kind, **ask)
        people.suspend(got.ticket)
        return hold

    def flow(self, text: str = PLAIN_FLOW) -> Flow:
        operator = cast.chain_of(self.olga)
        done = flows.import_flows(operator, self.space, text, self.board)
        return Flow.objects.get(space=self.space, key=done.saved[0].key)

    def run(self, flow: Flow | None = None) -> FlowRun:
        return flows.start(self.chain, flow or self.flow(), {})


def shape_faults(operation: Operation, told: Any) -> list[str]:
    """What of an answer is not as the document says."""
    document = openapi.document()
    asked = document["paths"][operation.path][operation.method.lower()]["responses"][str(operation.status)]
    schema = asked["content"]["application/json"]["schema"] | {"components": document["components"]}
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(told)]

"""What an operation is, and the list of them; routes, the OpenAPI document and, later, tools are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel

from boards.actors import Chain
from boards.models import Member, Scope
from boards.tasks.outside import Place

Method = Literal["GET", "POST", "PATCH"]


@dataclass(frozen=True)
class Call:
    """One call, read and checked: who asks, what the address names, the query, the body, and the idempotency key.

    `member`: the person behind the chain, for reads that pages share.
    """

    chain: Chain
    member: Member
    names: dict[str, str]
    query: Any = None
    body: Any = None
    idempotency_key: str = ""


@dataclass(frozen=True)
class Answer:
    """What is answered, as plain JSON; `location`: where the new thing is to be read.

    `waits_at`: there was nothing there yet; a call that waits is made again once there is.
    """

    told: dict[str, Any]
    location: str = ""
    waits_at: Place | None = None


@dataclass(frozen=True)
class Operation:
    """`path` names its parts as {board}; `names` says what each part is. `repeats`: takes an Idempotency-Key.

    `waits`: its body says in `wait_s` for how long the call waits where there is nothing yet.
    """

    name: str
    method: Method
    path: str
    scope: Scope
    run: Callable[[Call], Answer]
    summary: str
    description: str
    answer: type[BaseModel]
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    status: int = 200
    repeats: bool = False
    waits: bool = False
    tags: tuple[str, ...] = field(default=())

    @property
    def reads(self) -> bool:
        return self.method == "GET"


OPERATIONS: Final[list[Operation]] = []


def operation(
    name: str,
    method: Method,
    path: str,
    scope: Scope,
    answer: type[BaseModel],
    *,
    query: type[BaseModel] | None = None,
    body: type[BaseModel] | None = None,
    status: int = 200,
    repeats: bool = False,
    waits: bool = False,
) -> Callable[[Callable[[Call], Answer]], Callable[[Call], Answer]]:
    """Register a function as an operation; the first sentence of its docstring is its summary."""

    def register(run: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
        words = " ".join((run.__doc__ or "").split())
        summary = words.partition(". ")[0].rstrip(".")
        tag = run.__module__.rpartition(".")[2]
        OPERATIONS.append(
            Operation(
                name, method, path, scope, run, summary, words, answer, query, body, status, repeats, waits, (tag,)
            )
        )
        return run

    return register

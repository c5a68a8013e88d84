"""Filing many tasks at once, all or nothing (spec: 01 section 3, 08 section 2).

A refused batch files none, keeps what was written, and names each task that is wrong by its number. The rules of a
filing are the engine's; reading the text is `boards.web.batch_lines`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from boards import tasks
from boards.errors import AlreadyOpen, Refusal
from boards.models import Board
from boards.queries.task import find_board
from boards.tasks.types import Filing
from boards.web.batch_lines import Line, filings_of, read_lines
from boards.web.board import is_elsewhere
from boards.web.members import MemberRequest, member_page
from boards.web.task_fields import Texts, read_fields, said_of_field

SHARED: Final = ("assignee", "checker", "priority", "max_attempts", "due_at", "labels")


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong about one task of the batch; `number` 0: about none in particular."""

    sentence: str
    number: int = 0
    short: str = ""
    same: bool = False  # another task has the same goal, and it may be filed anyway
    twin: str = ""  # the id of that one, where it is on the board


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def file_batch(request: MemberRequest, slug: str) -> HttpResponse:
    """The form; sent, the tasks of its text. A refusal answers 422 with the text kept and a sentence a task."""
    board = find_board(request.member, slug)
    if board is None or is_elsewhere(request, board):
        raise Http404
    given = request.POST if request.method == "POST" else request.GET
    texts = Texts.of(given)
    errors: dict[str, str] = {}
    wrong: list[Wrong] = []
    if request.method == "POST":
        values, errors = read_fields(texts, only=SHARED)
        lines = read_lines(
            given.get("text", ""),
            blocks=given.get("split") == "block",
            names=list(board.roster.values_list("name", flat=True)),
        )
        wrong = _wrong(lines)
        if not (errors or wrong):
            shared = values | {"held": "held" in given}
            filings = filings_of(lines, shared, f"b{given.get('form_key', '')[:8] or uuid.uuid4().hex[:8]}")
            try:
                return _filed(request, board, _file(request, board, filings))
            except Refusal as refusal:
                errors, wrong = _refused(refusal, lines, filings)
    context = _context(board, given, texts) | {"errors": errors, "wrong": wrong}
    return render(request, "task/batch.html", context, status=422 if errors or wrong else 200)


def _wrong(lines: Sequence[Line]) -> list[Wrong]:
    if not lines:
        return [Wrong(_("Write at least one task."))]
    return [Wrong(line.problem, line.number, line.short) for line in lines if line.problem]


def _file(request: MemberRequest, board: Board, filings: Sequence[Filing]) -> int:
    allow_same = "allow_same" in request.POST
    key = request.POST.get("form_key", "")
    filed = tasks.file_tasks(
        request.chain,
        board,
        filings,
        allow_same=allow_same,
        idempotency_key=f"batch:{key}:{allow_same}" if key else "",
    )
    return len(filed)


def _filed(request: MemberRequest, board: Board, count: int) -> HttpResponse:
    messages.success(
        request, ngettext("Filed %(n)s task.", "Filed %(n)s tasks.", count) % {"n": count}, f"draft:batch/{board.slug}/"
    )
    return redirect("web:board", board.slug)


def _refused(refusal: Refusal, lines: Sequence[Line], filings: Sequence[Filing]) -> tuple[dict[str, str], list[Wrong]]:
    """The refusal at the field that all share, or at the task that it is about."""
    field = str(refusal.facts.get("field", ""))
    index = _index_of(refusal, filings)
    if index is None or (field in SHARED and not (field == "assignee" and lines[index].assignee)):
        told = said_of_field(field, refusal.sentence)
        return ({field: told}, []) if field in SHARED else ({}, [Wrong(refusal.sentence)])
    same, twin = isinstance(refusal, AlreadyOpen), str(refusal.facts.get("task_id", ""))
    return {}, [Wrong(refusal.sentence, lines[index].number, lines[index].short, same, twin if same else "")]


def _index_of(refusal: Refusal, filings: Sequence[Filing]) -> int | None:
    """Which filing of the batch: as the engine says, or the first that waits for the dependency named."""
    if isinstance(index := refusal.facts.get("index"), int):
        return index
    named = refusal.facts.get("id")
    return next((n for n, filing in enumerate(filings) if named in filing.deps), None)


def _context(board: Board, given: QueryDict, texts: Texts) -> dict[str, Any]:
    return {
        "board": board,
        "given": given,
        "texts": texts,
        "locked": [],
        "roster": list(board.roster.select_related("user")),
        "form_key": given.get("form_key") or uuid.uuid4().hex,
        "section": "boards",
    }

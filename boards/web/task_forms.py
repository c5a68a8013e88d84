"""The full form of a new task, and the form that edits one (spec: 01 sections 3 and 4, 08).

It reads text into values, keeps what was typed when something is refused, and puts each refusal under its field. What
may be filed or edited is the engine's rule: the form only shows it.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import trigger_client_event

from boards import tasks
from boards.errors import AlreadyOpen, Refusal, WouldStart
from boards.models import Board, Task
from boards.queries.task import find_board, find_task
from boards.queries.task_refs import open_refs
from boards.tasks.edits import TASK_FIELD_RULES, locked_fields
from boards.tasks.types import Filing
from boards.web.answers import with_toast
from boards.web.board import is_elsewhere
from boards.web.members import MemberRequest, member_page
from boards.web.task_fields import TEXTS, Texts, read_fields, read_question, said_of_field, texts_again, texts_of

# The field that a refusal is about, where the engine names none.
_FIELD_OF: Final = {
    "task_id_taken": "id",
    "unknown_assignee": "assignee",
    "dependency_not_on_board": "deps",
    "dependency_ended": "deps",
    "dependency_loop": "deps",
}


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def new_task(request: MemberRequest, slug: str) -> HttpResponse:
    """File a task with all its fields. A refusal answers 422 with the text kept and a sentence at the field."""
    board = find_board(request.member, slug)
    if board is None or is_elsewhere(request, board):
        raise Http404
    given = request.POST if request.method == "POST" else request.GET
    texts, twin = _texts_like(request, slug) or Texts.of(given), ""
    errors: dict[str, str] = {}
    if request.method == "POST":
        values, errors = read_fields(texts)
        holds = read_question(given, errors)
        try:
            if not errors:
                filing = Filing(**values, id=given.get("id", "").strip(), held="held" in given, holds=holds)
                task = _file(request, board, filing)
                return _filed(request, board, task)
        except Refusal as refusal:
            errors = _errors(refusal)
            twin = str(refusal.facts.get("task_id", "")) if isinstance(refusal, AlreadyOpen) else ""
    context = _context(board, texts, errors, tasks.partition_of(request.chain, board)) | {
        "given": given,
        "like": request.GET.get("like", ""),
        "twin": twin,
        "form_key": given.get("form_key") or uuid.uuid4().hex,
    }
    if request.htmx:  # in the drawer; a refused form is swapped in like any other answer
        return render(request, "task/_new.html", context | {"in_drawer": True})
    return render(request, "task/new.html", context, status=422 if errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def edit_task(request: MemberRequest, slug: str, public_id: str) -> HttpResponse:
    """Change what may be changed. Only fields that were changed are written, and never over somebody else's change."""
    task = find_task(request.member, slug, public_id)
    if task is None:
        raise Http404
    stored = texts_of(task)
    locked = locked_fields(task, TASK_FIELD_RULES)
    texts, starts = stored, False
    errors: dict[str, str] = {}
    if request.method == "POST":
        # A field that is locked is sent only where it was open when the page was read: its change is refused in words.
        sent = [name for name in TEXTS if name not in locked or name in request.POST]
        texts = Texts.of(request.POST, otherwise=stored, only=sent)
        changed = [name for name in sent if _mark(texts, name) != request.POST.get(f"was-{name}")]
        values, errors = read_fields(texts, only=changed)
        errors |= _changed_meanwhile(request.POST, changed, stored)
        try:
            if not errors:
                sentence = _save(request, task, values)
                messages.success(request, sentence)
                return redirect("web:task", slug, public_id)
        except Refusal as refusal:
            errors, starts = _errors(refusal), isinstance(refusal, WouldStart)
    context = _context(task.board, texts, errors, task.partition) | {
        "task": task,
        "starts": starts,
        "locked": locked,
        "marks": {name: _mark(stored, name) for name in TEXTS},
    }
    return render(request, "task/edit.html", context, status=422 if errors else 200)


@require_safe
@member_page
def dependency_options(request: MemberRequest, slug: str) -> HttpResponse:
    """Open tasks of the board whose text holds `q`, as options of the dependency fields."""
    board = find_board(request.member, slug)
    if board is None:
        raise Http404
    typed = request.GET.get("q", "") or next(iter(request.GET.getlist("deps")), "")
    return render(
        request,
        "task/_dep_options.html",
        {"open_tasks": open_refs(board, typed.replace("\x00", "")[:200], tasks.partition_of(request.chain, board))},
    )


def _texts_like(request: MemberRequest, slug: str) -> Texts | None:
    """What stands in the form that is opened to file an ended task again with changes (`like` names it)."""
    if request.method == "POST" or not request.GET.get("like"):
        return None
    task = find_task(request.member, slug, request.GET["like"])
    if task is None:
        raise Http404
    return texts_again(task)


def _file(request: MemberRequest, board: Board, filing: Filing) -> Task:
    allow_same = "allow_same" in request.POST
    key = request.POST.get("form_key", "")
    return tasks.file_task(
        request.chain, board, filing, allow_same=allow_same, idempotency_key=f"{key}:{allow_same}" if key else ""
    )


def _filed(request: MemberRequest, board: Board, task: Task) -> HttpResponse:
    """On to the new task; from the drawer the drawer closes, and a toast leads there."""
    if not request.htmx:
        messages.success(request, _("Filed."), extra_tags=f"draft:new/{board.slug}/")
        return redirect("web:task", board.slug, task.public_id)
    address = resolve_url("web:task", board.slug, task.public_id)
    response = with_toast(HttpResponse(status=204), _("Filed."), href=address, link=_("Open"))
    return trigger_client_event(response, "drawer:close")


def _save(request: MemberRequest, task: Task, values: dict[str, Any]) -> str:
    if not values:
        return _("Nothing was changed.")
    tasks.update_task(request.chain, task, unless_it_starts="start_it" not in request.POST, **values)
    return _("Saved.")


def _errors(refusal: Refusal) -> dict[str, str]:
    """The refusal under the field that it is about, or at the head of the form."""
    name = str(refusal.facts.get("field", "") or _FIELD_OF.get(refusal.code, ""))
    return {name if name in {*TEXTS, "id", "holds"} else "form": said_of_field(name, refusal.sentence)}


def _changed_meanwhile(form: QueryDict, changed: list[str], stored: Texts) -> dict[str, str]:
    """Fields that the reader and somebody else both changed since the form was opened."""
    both = [name for name in changed if _mark(stored, name) != form.get(f"was-{name}")]
    return {
        name: _("Somebody changed this meanwhile. It is now: %(text)s") % {"text": stored.shown(name)[:500]}
        for name in both
    }


def _mark(texts: Texts, name: str) -> str:
    """What a field held, short enough to go along with the form."""
    return hashlib.sha256(texts.normal(name).encode("utf-8", "replace")).hexdigest()[:16]


def _context(board: Board, texts: Texts, errors: dict[str, str], partition: str) -> dict[str, Any]:
    return {
        "board": board,
        "locked": [],
        "roster": list(board.roster.select_related("user")),
        "texts": texts,
        "errors": errors,
        "open_tasks": open_refs(board, "", partition),
        "section": "boards",
    }

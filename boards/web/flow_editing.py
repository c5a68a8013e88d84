"""Making and changing flows: templates, files, the editor with its live drawing, versions (spec: 05, 08 "Flows").

One form holds the text, the fields beside it and what both were made of; whichever button sends it, nothing that was
typed is lost: it comes back with what is wrong, or is saved.
"""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from boards import flows as engine
from boards import policy
from boards.errors import InvalidFlow, NotFound, Refusal
from boards.flows import exporting, library
from boards.flows.surroundings import surroundings_of
from boards.flows.validation import judged
from boards.models import Board, Flow
from boards.queries import flow_editor, flow_form
from boards.queries.flows import find_flow
from boards.web.members import MemberRequest, member_page

MAX_FILE: Final = 1_000_000


@require_safe
@member_page
def new_flow(request: MemberRequest) -> HttpResponse:
    """Where a flow comes from: a template, a file, or nothing at all."""
    _require_editor(request)
    return render(request, "flow/new.html", _new_context(request))


@require_POST
@member_page
def add_template(request: MemberRequest, key: str) -> HttpResponse:
    """Load a ready template into the space, with its board and roster."""
    try:
        made = engine.add_template(request.chain, request.member.space, key)
    except NotFound as refused:
        raise Http404(refused.sentence) from None
    except Refusal as refused:
        raise PermissionDenied(refused.sentence) from None
    return redirect("web:flow", made.key)


@require_POST
@member_page
def import_file(request: MemberRequest) -> HttpResponse:
    """Save the flows of a file or of a pasted text; the page again, with what was saved, skipped or wrong."""
    _require_editor(request)
    text, problem = _given_text(request)
    context = _new_context(request) | {"text": text, "problem": problem}
    status = 422 if problem else 200
    if not problem:
        try:
            context["imported"] = engine.import_flows(request.chain, request.member.space, text, _board(request))
        except InvalidFlow as refused:
            context["problems"], status = refused.problems, 422
        except Refusal as refused:
            context["problem"], status = refused.sentence, 422
        else:
            context |= {"text": "", "templates": flow_editor.templates(request.member.space)}
    return render(request, "flow/new.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def new_editor(request: MemberRequest) -> HttpResponse:
    """The editor of a flow that is not there yet."""
    _require_editor(request)
    key = request.GET.get("template", "")
    try:
        text = flow_editor.template_text(key) if key else flow_editor.EMPTY
    except NotFound as refused:
        raise Http404(refused.sentence) from None
    return _editor(request, None, text, 0)


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def edit_flow(request: MemberRequest, key: str) -> HttpResponse:
    """The editor of a flow; saving makes its next version."""
    found = _found(request, key)
    _require_editor(request)
    version = flow_editor.newest_version(found)
    return _editor(request, found, flow_editor.text_of(version) if version else "", version.number if version else 0)


@require_safe
@member_page
def flow_versions(request: MemberRequest, key: str) -> HttpResponse:
    """The versions of a flow, and what changed from one to another."""
    found = _found(request, key)
    told = flow_editor.versions(found, _number(request.GET.get("old")), _number(request.GET.get("new")))
    context = {"flow": found, "versions": told, "section": "flows", "may_edit": _may_edit(request)}
    return render(request, "flow/versions.html", context)


@require_safe
@member_page
def export_flow(request: MemberRequest, key: str) -> HttpResponse:
    """The newest version as a file that an import reads."""
    found = _found(request, key)
    form = "json" if request.GET.get("format") == "json" else "yaml"
    try:
        text = exporting.exported([library.newest(found.space, found.key)], form)
    except NotFound as refused:
        raise Http404(refused.sentence) from None
    kind = "application/json" if form == "json" else "application/yaml"
    response = HttpResponse(text, content_type=f"{kind}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{found.key}.{form}"'
    return response


def _editor(request: MemberRequest, found: Flow | None, text: str, number: int) -> HttpResponse:
    if request.method != "POST":
        return _shown(request, found, text, based_on=number, at=request.GET.get("step", ""))
    act, _colon, of = request.POST.get("act", "check").partition(":")
    text = request.POST.get("text", "").replace("\r\n", "\n")
    at = request.POST.get("at", "")
    # What is typed is judged as it stands; a button without scripts takes the form along.
    if act != "check" or not request.htmx:
        text = flow_form.applied(text, request.POST.get("base", "").replace("\r\n", "\n"), at, _posted(request))
    based_on = _number(request.POST.get("based_on"))
    if act == "save":
        return _save(request, found, text, based_on, at)
    text, at = _changed(act, of, text, at)
    return _shown(request, found, text, based_on=based_on, at=at, act=act)


def _changed(act: str, of: str, text: str, at: str) -> tuple[str, str]:
    """The text after an act on its steps, and the step whose form is open then."""
    match act:
        case "add":
            return flow_form.with_step(text, of)
        case "drop":
            return flow_form.without_step(text, of), ""
        case "up" | "down":
            return flow_form.moved_step(text, of, -1 if act == "up" else 1), of
        case "open":
            return text, of
    return text, at


def _save(request: MemberRequest, found: Flow | None, text: str, based_on: int, at: str) -> HttpResponse:
    space = request.member.space
    board = found.board if found else _board(request)
    try:
        told = engine.validate(text, surroundings_of(space, board))
        if found is not None and told.key != found.key:
            words = _('This is the flow "%(key)s", and a flow keeps its key. For another one, make a new flow.')
            raise InvalidFlow([f"line {_line_of_key(text)}, key: {words % {'key': found.key}}"])
        if found is None and Flow.objects.filter(space=space, key=told.key).exists():
            words = _('A flow with the key "%(key)s" is here already. Choose another key.')
            raise InvalidFlow([f"line {_line_of_key(text)}, key: {words % {'key': told.key}}"])
        saved = engine.save_version(request.chain, space, board, told, based_on=based_on)
    except InvalidFlow as refused:
        known = judged(text, surroundings_of(space, board)).problems
        said = tuple(each for each in refused.problems if each not in known)
        return _shown(request, found, text, based_on=based_on, at=at, said=said, status=422)
    except engine.FlowChanged as refused:
        newest = _number(str(refused.facts.get("version", based_on)))
        return _shown(request, found, text, based_on=newest, at=at, overtaken=refused.sentence, status=409)
    except Refusal as refused:
        return _shown(request, found, text, based_on=based_on, at=at, said=(refused.sentence,), status=422)
    to = f"{resolve_url('web:flow_versions', saved.key)}?saved=1"
    return HttpResponseClientRedirect(to) if request.htmx else redirect(to)


def _shown(
    request: MemberRequest,
    found: Flow | None,
    text: str,
    *,
    based_on: int,
    at: str,
    act: str = "",
    said: tuple[str, ...] = (),
    overtaken: str = "",
    status: int = 200,
) -> HttpResponse:
    board = found.board if found else _board(request)
    told = flow_editor.editor(request.member.space, board, text, at, said)
    context: dict[str, Any] = {
        "flow": found,
        "editor": told,
        "based_on": based_on,
        "board": board,
        "boards": Board.objects.filter(space=request.member.space).order_by("name") if found is None else (),
        "section": "flows",
        "overtaken": overtaken,
        "was_posted": request.method == "POST",
        "live": found.runs.filter(status="active").count() if found else 0,
        # Which parts a live answer carries: a check leaves the text alone, a change in the form leaves the form, unless
        # that was made of another text than the one which it is put into.
        "swaps_text": act not in {"", "check"},
        "swaps_form": act != "apply" or request.POST.get("redraw") == "1" or not _is_of_one_text(request),
    }
    if request.htmx and act:
        return render(request, "flow/_edit_answer.html", context)
    return render(request, "flow/edit.html", context, status=status)


def _is_of_one_text(request: MemberRequest) -> bool:
    text, base = (request.POST.get(name, "").replace("\r\n", "\n") for name in ("text", "base"))
    return text == base


def _posted(request: MemberRequest) -> Any:
    def posted(of: str, name: str) -> str | None:
        field = f"{of}.{name}"
        if f"has.{field}" not in request.POST:
            return None
        return request.POST.get(field, "")

    return posted


def _board(request: MemberRequest) -> Board | None:
    """The board that a new flow is to go on; None: one of its own."""
    slug = request.POST.get("board", "")
    return Board.objects.filter(space=request.member.space, slug=slug).first() if slug else None


def _given_text(request: MemberRequest) -> tuple[str, str]:
    """The text to import, and what is wrong with the way in which it came."""
    upload = request.FILES.get("file")
    if upload is None:
        text = request.POST.get("text", "").replace("\r\n", "\n")
        return text, "" if text.strip() else _("Choose a file, or paste its text.")
    if (upload.size or 0) > MAX_FILE:
        return "", _("The file is larger than 1 MB.")
    try:
        return upload.read().decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        return "", _("The file is no text in UTF-8.")


def _new_context(request: MemberRequest) -> dict[str, Any]:
    boards = Board.objects.filter(space=request.member.space).order_by("name").values_list("slug", "name")
    templates = flow_editor.templates(request.member.space)
    return {"templates": templates, "section": "flows", "text": "", "boards": list(boards)}


def _found(request: MemberRequest, key: str) -> Flow:
    found = find_flow(request.member, key)
    if found is None:
        raise Http404("There is no such flow.")
    return found


def _may_edit(request: MemberRequest) -> bool:
    return request.member.role in policy.ROLE_ACTIONS["flows.edit"]


def _require_editor(request: MemberRequest) -> None:
    if not _may_edit(request):
        raise PermissionDenied(_("Only operators of the space make and change flows. Ask one of them."))


def _number(told: str | None) -> int:
    return int(told) if told and told.isascii() and told.isdecimal() and len(told) < 10 else 0


def _line_of_key(text: str) -> int:
    lines = text.split("\n")
    return next((at for at, line in enumerate(lines, 1) if line.lstrip(" -").startswith("key:")), 1)

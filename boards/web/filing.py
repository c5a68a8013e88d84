"""Filing from the board by the quick line, where one line is the goal (spec: 01 section 3, 08 section 2).

A refused line is kept, with the sentence under it. The rules of a filing are the engine's; this module reads the line.
The full form is in `boards.web.task_forms`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from boards import tasks
from boards.errors import AlreadyOpen, InvalidInput, Refusal, UnknownAssignee
from boards.models import Task
from boards.queries.board import BoardFacts, cards
from boards.queries.filters import BoardFilter
from boards.tasks.types import Filing
from boards.web.answers import with_toast
from boards.web.board import found_board, in_partition, is_elsewhere
from boards.web.members import MemberRequest, member_page

_TO = re.compile(r"@(\S+)(?:\s+|$)(.*)", re.DOTALL)


@dataclass
class Quick:
    """What the quick line shows: empty, or what was typed with the sentence of its refusal."""

    line: str = ""
    assignee: str = ""
    error: str = ""
    same: bool = False  # another task has the same goal, and it may be filed anyway
    twin: str = ""  # the id of that one, where it is on the board
    filed: list[Task] = field(default_factory=list)


@require_POST
@member_page
def file_task(request: MemberRequest, slug: str) -> HttpResponse:
    """File the line: one task, or with `each` one a line. Answers the line again, and the new cards."""
    facts = found_board(request, slug)
    if is_elsewhere(request, facts.board):
        raise Http404
    quick = Quick(request.POST.get("line", ""), request.POST.get("assignee", ""))
    try:
        filed = _file_line(request, facts, quick)
    except Refusal as refusal:
        quick.error = refusal.sentence
        quick.same = isinstance(refusal, AlreadyOpen)
        quick.twin = str(refusal.facts.get("task_id", "")) if quick.same else ""
    else:
        quick = Quick(assignee=quick.assignee, filed=filed)
    return _answer(request, facts, quick)


def _file_line(request: MemberRequest, facts: BoardFacts, quick: Quick) -> list[Task]:
    allow_same = "allow_same" in request.POST
    if "each" in request.POST:
        filings = [_line_filing(facts, line, quick.assignee) for line in quick.line.splitlines() if line.strip()]
        return tasks.file_tasks(request.chain, facts.board, filings, allow_same=allow_same)
    filing = _line_filing(facts, quick.line, quick.assignee)
    return [tasks.file_task(request.chain, facts.board, filing, allow_same=allow_same)]


def _line_filing(facts: BoardFacts, line: str, assignee: str) -> Filing:
    """The goal, and whom it is for: `@name` at its head wins over the choice beside the line."""
    line = line.strip()
    if to := _TO.fullmatch(line):
        assignee, line = _named(facts, to[1]), to[2].strip()
    if not line:
        raise InvalidInput(_("Write what is to be done: one line is the goal."), field="goal")
    return Filing(goal=line, assignee=assignee)


def _named(facts: BoardFacts, name: str) -> str:
    names = {agent.name.casefold(): agent.name for agent in facts.names}
    if found := names.get(name.casefold()):
        return found
    known = ", ".join(agent.name for agent in facts.names) or _("nobody yet")
    said = _("“%(name)s” is not on the roster of %(board)s. There is %(known)s.")
    raise UnknownAssignee(said % {"name": name, "board": facts.board.name, "known": known}, field="assignee")


def _answer(request: MemberRequest, facts: BoardFacts, quick: Quick) -> HttpResponse:
    if not request.htmx and quick.filed:
        return redirect("web:board", facts.board.slug)
    context: dict[str, Any] = {"facts": facts, "board": facts.board, "quick": quick, "section": "boards"}
    if not request.htmx:
        return render(request, "board/quick.html", context, status=422)
    if quick.filed:
        # The socket brings the cards too; the page takes whichever comes first, by revision.
        context["cards"] = cards(facts.board, [task.pk for task in quick.filed], _filter_of(request, facts)).cards
    response = render(request, "board/_quick.html", context)
    return with_toast(response, _said(quick)) if len(quick.filed) > 1 else response


def _filter_of(request: MemberRequest, facts: BoardFacts) -> BoardFilter:
    """The filter of the page that the line stands on."""
    query = (request.htmx.current_url or "").partition("?")[2]
    filters = BoardFilter.from_query(QueryDict(query).dict(), request.member.user_id)
    return in_partition(request, facts, filters)


def _said(quick: Quick) -> str:
    count = len(quick.filed)
    return ngettext("Filed %(n)s task.", "Filed %(n)s tasks.", count) % {"n": count}

"""The page of one task: the whole page, the drawer over the board, and the parts that read themselves again (spec: 08).

GET only; it loads with permission, asks the queries, and renders. What a member may not see answers 404.
"""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render, resolve_url
from django.views.decorators.http import require_safe

from boards import tasks
from boards.models import RosterEntry, Task
from boards.queries.asks import asks_for
from boards.queries.task import (
    TaskPage,
    attempt_lines,
    events_page,
    find_task,
    lines_since,
    start_state,
    task_page,
)
from boards.states import Status
from boards.tasks.decisions import StartFacts, why_not_starting
from boards.web.members import MemberRequest, member_page


@require_safe
@member_page
def task(request: MemberRequest, slug: str, public_id: str) -> HttpResponse:
    """The drawer's content for a fragment's request, the full page for every other."""
    context = _context(request, _found(request, slug, public_id), attempt=_number(request, "attempt"))
    return render(request, "task/_drawer.html" if request.htmx else "task/page.html", context)


@require_safe
@member_page
def task_parts(request: MemberRequest, slug: str, public_id: str) -> HttpResponse:
    """Every live part, to be swapped in by its id; of the log and the open transcript only what is new.

    `attempt`, `seen` and `events` say what the page has: its newest attempt, the last line, the last event; `folded`
    that no line of that attempt was opened yet. An attempt that is new to the page comes open, the older ones folded.
    """
    found = _found(request, slug, public_id)
    context = _context(request, found, attempt=0) | {"oob": True, "folded": request.GET.get("folded")}
    number, seen = _number(request, "attempt"), _number(request, "seen")
    if number and number == found.attempts:
        context["new_lines"] = lines_since(found, number, seen)
    if since := _number(request, "events"):
        newer = events_page(found, request.member, since=since)
        context["new_events"] = None if newer.before else newer.lines
    return render(request, "task/_parts.html", context)


@require_safe
@member_page
def task_attempt(request: MemberRequest, slug: str, public_id: str, number: int) -> HttpResponse:
    """One page of an attempt's transcript: the newest lines, or those before the cursor."""
    found = _found(request, slug, public_id)
    lines = attempt_lines(found, number, before=_number(request, "before"))
    return render(request, "task/_lines.html", {"task": found, "board": found.board, "number": number, "lines": lines})


@require_safe
@member_page
def task_events(request: MemberRequest, slug: str, public_id: str) -> HttpResponse:
    """The events before the cursor, newest first."""
    found = _found(request, slug, public_id)
    events = events_page(found, request.member, before=_number(request, "before"))
    return render(request, "task/_event_lines.html", {"task": found, "board": found.board, "events": events})


def _found(request: MemberRequest, slug: str, public_id: str) -> Task:
    found = find_task(request.member, slug, public_id)
    if found is None:
        raise Http404("There is no such task.")
    return found


def _context(request: MemberRequest, found: Task, *, attempt: int) -> dict[str, Any]:
    page = task_page(
        found,
        request.member,
        attempt=attempt,
        before=_number(request, "before"),
        events_before=_number(request, "events_before"),
    )
    asks = asks_for(request.member, task=found)
    open_asks = [ask for ask in asks if ask.is_open]
    return {
        "page": page,
        "next": resolve_url("web:task", found.board.slug, found.public_id),
        "section": "boards",
        "task": found,
        "board": found.board,
        "act": page.act,
        "asks": open_asks,
        "answers": [ask for ask in asks if not ask.is_open],
        "why": _why(page, [ask.heading for ask in open_asks]),
        "is_outside": _is_outside(page),
        "on_you": any(ask.may_answer and ask.is_mine for ask in open_asks) or _is_mine(page),
    }


def _is_mine(page: TaskPage) -> bool:
    """Whether it waits on this member for a check, or because it is assigned to them."""
    check = page.task.status == Status.NEEDS_CHECK and page.act["accept"].allowed
    return check or page.act["claim"].allowed or page.act["complete"].allowed


def _is_outside(page: TaskPage) -> bool:
    """Whether its worker takes it by itself, from elsewhere."""
    name = page.task.assignee or page.board.default_worker
    return any(entry.name == name and entry.kind == RosterEntry.Kind.PULL for entry in page.roster)


def _why(page: TaskPage, asks: list[str]) -> list[str]:
    """Why it does not start, in sentences, the strongest first; the engine's own words."""
    task = page.task
    if task.status not in {Status.PENDING, Status.HELD}:
        return []
    entry = next((entry for entry in page.roster if entry.name == (task.assignee or page.board.default_worker)), None)
    state = start_state(task, entry)
    other = tasks.at_work(task)
    facts = StartFacts(
        waits_for=[(ref.label, ref.status) for ref in page.beside.waits_for if ref.status != Status.COMPLETED],
        asks=asks,
        chain_busy_with=f"“{other.label}”" if other else "",
        board_paused=page.board.paused,
        person=entry.user.display if entry and entry.user and entry.kind == RosterEntry.Kind.PERSON else "",
        served=state.served,
        outside=state.outside,
        free=state.free,
        busy_with=state.busy_with,
    )
    return why_not_starting(task, facts, page.now)


def _number(request: MemberRequest, name: str) -> int:
    """A whole number of the query string; 0 for none and for anything else."""
    given = request.GET.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else 0

"""What a check that was decided in the list of *Needs you* answers there: its row goes, or says why not (spec: 04).

The deciding is `boards.web.task_acts`, as from the task's page; what was typed is kept whatever comes of it.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.http import require_safe
from django_htmx.http import reswap, retarget

from boards.errors import AlreadyChecked, DraftChanged, Refusal
from boards.models import Task
from boards.queries import checks
from boards.queries.cards import task_dom_id
from boards.queries.needs_you import row_of
from boards.queries.task import find_task
from boards.states import Status
from boards.tasks.check_words import decided_words
from boards.web.answers import with_toast
from boards.web.members import MemberRequest, member_page, safe_next


@require_safe
@member_page
def check_state(request: MemberRequest, slug: str, public_id: str) -> HttpResponse:
    """Whether the hand-in of attempt `shown` still waits: 204, or what became of it."""
    task = find_task(request.member, slug, public_id)
    number = request.GET.get("shown", "")
    if task is None or not (number.isascii() and number.isdigit() and len(number) < 9):
        raise Http404
    if task.status == Status.NEEDS_CHECK and task.attempts == int(number):
        return HttpResponse(status=204)
    context = {"task": task, "board_slug": slug, "problem": decided_words(task, int(number))}
    return render(request, "needs/_check_late.html", context)


def taken(request: MemberRequest, task: Task, sentence: str) -> HttpResponse:
    """It is decided: the row goes, and a toast says so; without htmx back to the list."""
    said = f"{sentence.rstrip('.')}: “{task.label[:80]}”"
    if not request.htmx:
        messages.success(request, said)
        return redirect(_back(request))
    return with_toast(reswap(retarget(HttpResponse(), f"#row-{key_of(task)}"), "delete"), said)


def not_taken(request: MemberRequest, task: Task, refusal: Refusal) -> HttpResponse:
    """The sentence in the row's own form; a page where there is no htmx. A changed result comes with a new form."""
    context: dict[str, Any] = {
        "task": task,
        "board_slug": task.board.slug,
        "problem": refusal.sentence,
        "typed": request.POST,
        "next": request.POST.get("next", ""),
        "section": "needs",
    }
    status = refusal.http_status
    if request.htmx and isinstance(refusal, AlreadyChecked):
        return render(request, "needs/_check_late.html", context, status=status)
    if request.htmx and not isinstance(refusal, DraftChanged):
        return render(request, "hold/_problem.html", context, status=status)
    row = row_of(request.member, key_of(task))
    check = checks.check(request.member, row) if row else None
    if not request.htmx:
        return render(request, "needs/check.html", context | {"check": check}, status=status)
    if check is None:
        return render(request, "needs/_check_late.html", context, status=status)
    fresh = render(request, "needs/_check_form.html", context | {"check": check}, status=status)
    return reswap(retarget(fresh, f"#ask-form-{check.form_id}"), "outerHTML")


def key_of(task: Task) -> str:
    """The key of the task's row in the list."""
    return f"row-{task_dom_id(task.board_id, task.public_id, task.partition)}"


def _back(request: MemberRequest) -> str:
    return safe_next(request, request.POST.get("next", ""), resolve_url("web:needs_you"))

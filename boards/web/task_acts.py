"""The acts of a task's page: one POST, one verb of the engine, one answer in words (spec: 01 section 2, 08).

Who may do what is the verb's decision; this module reads the form and translates the answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST
from django_htmx.http import trigger_client_event

from boards import tasks
from boards.actors import Chain
from boards.errors import Forbidden, InvalidInput, Refusal, TaskFinished, TaskWriteDeclined
from boards.models import Task
from boards.queries.task import find_task
from boards.states import Status
from boards.tasks.types import Filing, TaskWriteOutcome, Ticket
from boards.web import checks
from boards.web.answers import acted, refused, with_toast
from boards.web.members import MemberRequest, member_page

CHANGED: Final = "task:changed"  # what static/js/task.js listens for: read the parts of the page again

_IN_LIST: Final = frozenset({"accept", "send_back"})  # decided in a row of Needs you too

Verb = Callable[[Chain, Task, QueryDict], str]


@require_POST
@member_page
def task_act(request: MemberRequest, slug: str, public_id: str, verb: str) -> HttpResponse:
    """Do `verb` on the task and say so: a toast, or back on the page with the sentence."""
    task = find_task(request.member, slug, public_id)
    act = VERBS.get(verb)
    if task is None or act is None:
        raise Http404
    back = resolve_url("web:task", slug, public_id)
    in_list = verb in _IN_LIST and request.POST.get("from") == "list"
    try:
        sentence = act(request.chain, task, request.POST)
    except Refusal as refusal:
        return checks.not_taken(request, task, refusal) if in_list else _refused(request, refusal, back)
    if in_list:
        return checks.taken(request, task, sentence)
    response = acted(request, sentence, back=back)
    return trigger_client_event(response, CHANGED) if request.htmx else response


@require_POST
@member_page
def follow_up(request: MemberRequest, slug: str, public_id: str) -> HttpResponse:
    """File a follow-up of the task: a toast that leads to it, or on to its page.

    `known`: how many tasks of the chain the page showed, so that the same words sent twice from it are one task.
    """
    task = find_task(request.member, slug, public_id)
    if task is None:
        raise Http404
    back = resolve_url("web:task", slug, public_id)
    goal, held = request.POST.get("goal", "").strip(), "held" in request.POST
    words = hashlib.sha256(goal.encode("utf-8", "replace")).hexdigest()
    key = f"follow_up:{task.pk}:{request.POST.get('known', '')[:10]}:{held}:{words}"
    try:
        filing = Filing(goal, follow_up_of=task.public_id, held=held)
        made = tasks.file_task(request.chain, task.board, filing, idempotency_key=key)
    except Refusal as refusal:
        return _refused(request, refusal, back)
    return _filed(request, resolve_url("web:task", slug, made.public_id))


@require_POST
@member_page
def file_again(request: MemberRequest, slug: str, public_id: str) -> HttpResponse:
    """File a withdrawn task again: a toast that leads to the new one, or on to its page."""
    task = find_task(request.member, slug, public_id)
    if task is None:
        raise Http404
    try:
        made = tasks.file_again(request.chain, task, in_its_place="in_its_place" in request.POST)
    except Refusal as refusal:
        return _refused(request, refusal, resolve_url("web:task", slug, public_id))
    return _filed(request, resolve_url("web:task", slug, made.public_id))


def _filed(request: MemberRequest, address: str) -> HttpResponse:
    if not request.htmx:
        messages.success(request, _("Filed."))
        return redirect(address)
    response = with_toast(HttpResponse(status=204), _("Filed."), href=address, link=_("Open"))
    return trigger_client_event(response, CHANGED)


def _refused(request: MemberRequest, refusal: Refusal, back: str) -> HttpResponse:
    """The sentence of the refusal; where it says to file a follow-up, with the way there."""
    finished = isinstance(refusal, TaskFinished)
    way = {"href": f"{back}#task-follow", "link": _("File a follow-up")} if finished else {}
    return refused(request, refusal, back=f"{back}#task-follow" if finished else back, **way)


def _claim(chain: Chain, task: Task, form: QueryDict) -> str:
    tasks.claim_for_person(chain, task)
    return _("Started.")


def _complete(chain: Chain, task: Task, form: QueryDict) -> str:
    words = form.get("output", "").strip()
    outcome = tasks.complete(chain, task, {"markdown": words} if words else None, claim=ticket_of(chain, task))
    return _landed(outcome, _("Handed in."))


def _hand_back(chain: Chain, task: Task, form: QueryDict) -> str:
    outcome = tasks.hand_back(chain, task, claim=ticket_of(chain, task), reason=form.get("reason", "").strip())
    return _landed(outcome, _("Given back."))


def _accept(chain: Chain, task: Task, form: QueryDict) -> str:
    words = form.get("words", "").strip()
    return _landed(tasks.accept(chain, task, words, shown=_shown(form)), _("Accepted."))


def _send_back(chain: Chain, task: Task, form: QueryDict) -> str:
    words = _needed(form, "words", _("Say what is missing: the next attempt reads your words."))
    return _landed(tasks.send_back(chain, task, words, shown=_shown(form)), _("Sent back."))


def _shown(form: QueryDict) -> int:
    """The attempt whose result the form showed; 0 where it does not say."""
    number = form.get("shown", "")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 0


def _retry(chain: Chain, task: Task, form: QueryDict) -> str:
    outcome = tasks.retry(chain, task, with_dependents="with_dependents" in form)
    return _landed(outcome, _("Retried."))


def _skip(chain: Chain, task: Task, form: QueryDict) -> str:
    reason = _needed(form, "reason", _("Say why it is skipped: the reason stands on the card."))
    return _landed(tasks.skip(chain, task, reason), _("Skipped."))


def _cancel(chain: Chain, task: Task, form: QueryDict) -> str:
    reason, filed = form.get("reason", "").strip(), "cancel_filed" in form
    return _landed(tasks.cancel(chain, task, reason, cancel_filed=filed), _("Cancelled."))


def _hold(chain: Chain, task: Task, form: QueryDict) -> str:
    return _landed(tasks.hold(chain, task), _("Held."))


def _release(chain: Chain, task: Task, form: QueryDict) -> str:
    assignee = form.get("assignee")
    outcome = tasks.release(chain, task, assignee=None if assignee in {None, task.assignee} else assignee)
    return _landed(outcome, _("Released."))


def _start_anyway(chain: Chain, task: Task, form: QueryDict) -> str:
    _landed(tasks.start_anyway(chain, task), "")
    row = tasks.get_task(chain, task.board, task.public_id, partition=task.partition)
    if row.status == Status.HELD:
        return _("It no longer waits for what ended, and is still held.")
    if row.open_holds:
        return _("It no longer waits for what ended. It starts when its question is answered.")
    if row.unmet_deps:
        return _("It no longer waits for what ended. It starts when the other tasks are done.")
    return _("It starts without what it waited for.")


def _reclaim(chain: Chain, task: Task, form: QueryDict) -> str:
    return _landed(tasks.reclaim(chain, task), _("Reclaimed."))


def _steer(chain: Chain, task: Task, form: QueryDict) -> str:
    message = _needed(form, "message", _("Write the message first."))
    tasks.steer(chain, task, message)
    return _("Sent.")


VERBS: Final[Mapping[str, Verb]] = {
    "claim": _claim,
    "complete": _complete,
    "hand_back": _hand_back,
    "accept": _accept,
    "send_back": _send_back,
    "retry": _retry,
    "skip": _skip,
    "cancel": _cancel,
    "hold": _hold,
    "release": _release,
    "start_anyway": _start_anyway,
    "reclaim": _reclaim,
    "steer": _steer,
}


def ticket_of(chain: Chain, task: Task) -> Ticket:
    """The ticket of the person who works the task now; Forbidden for everybody else."""
    ticket = tasks.person_ticket(chain, task)
    if ticket is None:
        raise Forbidden(_("You do not work on this task now. Start it first, if it is assigned to you."))
    return ticket


def _needed(form: QueryDict, name: str, sentence: str) -> str:
    """The text of a field that must say something; refused with the sentence, so that the page keeps the rest."""
    text = form.get(name, "").strip()
    if not text:
        raise InvalidInput(sentence, field=name)
    return text


def _landed(outcome: TaskWriteOutcome, sentence: str) -> str:
    if not outcome.landed:
        raise TaskWriteDeclined(outcome.sentence)
    return sentence

"""One act on many rows of *Needs you*: what is hit is shown and counted first, and each row says what came of it.

Every row is one call of the same verb that its own button calls; one that is refused keeps no other from it
(spec: 04 section 3.4; fault 30).
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, cast

from asgiref.sync import sync_to_async
from django.core.exceptions import ObjectDoesNotExist
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from boards import flows, people, tasks
from boards.actors import Chain
from boards.debts import operating
from boards.debts.paying import Paid
from boards.errors import DraftChanged, Refusal, TaskWriteDeclined
from boards.models import FlowRun, Task
from boards.queries.needs_bulk import BulkAct, Pile, piles
from boards.queries.needs_you import Row, matching
from boards.tasks.types import TaskWriteOutcome
from boards.web.debts import StillOwed
from boards.web.members import MemberRequest, member_page
from boards.web.needs_filters import filters_of, query_of
from boards.web.task_acts import ticket_of

_ROWS, _SUMS = "<!--rows-->", "<!--sums-->"  # where the frame leaves room for what is sent as it is done


@require_POST
@member_page
def bulk(request: MemberRequest) -> HttpResponse:
    """First what is hit and what can be done with it; with `act`, the work, sent row by row as it is done."""
    form = request.POST
    filters = filters_of(form)
    everything = "all" in form
    rows = matching(request.member, filters)
    wanted = set(form.getlist("row"))
    if not everything:
        rows = [row for row in rows if row.key in wanted]
    found = piles(rows, request.member)
    pile = next((one for one in found if one.key == form.get("pile")), None)
    act = next((one for one in pile.acts if one.verb == form.get("act")), None) if pile else None
    words = form.get("words", "").strip()
    if pile is None or act is None or pile.too_many or (act.words == "must" and not words):
        missing = bool(act and act.words == "must" and not words)
        context = {
            "piles": found,
            "filters": filters,
            "everything": everything,
            "keys": form.getlist("row"),
            "back": query_of(filters),
            "words": words,
            "problem": _("Say it in words first: they go to each of these.") if missing else "",
            "section": "needs",
        }
        return render(request, "needs/bulk.html", context, status=422 if missing else 200)
    gone = 0 if everything else len(wanted) - len(rows)
    return _work(request, pile, act, words, query_of(filters), gone)


def _work(request: MemberRequest, pile: Pile, act: BulkAct, words: str, back: str, gone: int) -> HttpResponse:
    """`gone`: how many of those that were selected wait no more."""
    context = {"pile": pile, "back": back, "section": "needs"}
    frame = render_to_string("needs/bulk_done.html", context, request)
    parts = _parts(request.chain, pile, act, words, request.POST, frame, gone)
    content = _async(parts) if isinstance(request, ASGIRequest) else parts
    response = StreamingHttpResponse(content, headers={"Cache-Control": "no-store"})
    return cast(HttpResponse, response)  # as far as a page's door goes they are the same


def _parts(chain: Chain, pile: Pile, act: BulkAct, words: str, form: QueryDict, frame: str, gone: int) -> Iterator[str]:
    """The page in pieces, so that ten thousand rows show how far they are."""
    before, after = frame.split(_ROWS)
    yield before
    done = 0
    for row in pile.rows:
        ok, sentence = _one(chain, row, act.verb, words, form)
        done += ok
        line = {"row": row, "ok": ok, "sentence": act.done if ok else sentence, "words": words if ok else ""}
        yield render_to_string("needs/_bulk_line.html", line)
    left = pile.total - done
    said = ngettext("%(n)d done", "%(n)d done", done) % {"n": done}
    if left:
        said += ", " + ngettext("%(n)d not", "%(n)d not", left) % {"n": left}
    if gone:
        said += ", " + ngettext("%(n)d waited no more", "%(n)d waited no more", gone) % {"n": gone}
    yield after.replace(_SUMS, f"{said}.")


def _one(chain: Chain, row: Row, verb: str, words: str, form: QueryDict) -> tuple[bool, str]:
    try:
        _do(chain, row, verb, words, form)
    except Refusal as refusal:
        return False, refusal.sentence
    except ObjectDoesNotExist:
        return False, _("It was removed meanwhile.")
    return True, ""


def _do(chain: Chain, row: Row, verb: str, words: str, form: QueryDict) -> None:
    if verb.startswith("answer:"):
        people.answer_hold(
            chain,
            row.hold_id,
            choice=verb.removeprefix("answer:"),
            text=words,
            shown_hash=form.get(f"hash-{row.hold_id}", ""),
            idempotency_key=form.get("key", "") or uuid.uuid4().hex,
        )
    elif verb == "seen":
        people.mark_seen(chain, row.key)
    elif row.debt_id:
        _DEBT_ACTS[verb](chain, row.debt_id)
    elif row.run_id:
        _RUN_ACTS[verb](chain, FlowRun.objects.get(pk=row.run_id))
    else:
        task = Task.objects.select_related("board").get(pk=row.task_key)
        shown = _number(form.get(f"shown-{row.key}", ""))
        if row.group == "check" and not shown:
            raise DraftChanged(_("Its result was not on the page. Read it first, then decide."))
        _landed(_TASK_ACTS[verb](chain, task, words, shown))


def _number(text: str) -> int:
    """The attempt whose result the page showed; 0 where it showed none of this row."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _landed(outcome: Any) -> None:
    if isinstance(outcome, TaskWriteOutcome) and not outcome.landed:
        raise TaskWriteDeclined(outcome.sentence)


def _retry_debt(chain: Chain, debt_id: int) -> None:
    if operating.pay_again(chain, debt_id) is Paid.FAILED:
        raise StillOwed(_("It failed again and is tried on."))


# The last argument is the attempt whose result was shown.
_TASK_ACTS: Final[dict[str, Callable[[Chain, Task, str, int], Any]]] = {
    "retry": lambda chain, task, words, shown: tasks.retry(chain, task),
    "skip": lambda chain, task, words, shown: tasks.skip(chain, task, words),
    "accept": lambda chain, task, words, shown: tasks.accept(chain, task, shown=shown),
    "send_back": lambda chain, task, words, shown: tasks.send_back(chain, task, words, shown=shown),
    "claim": lambda chain, task, words, shown: tasks.claim_for_person(chain, task),
    "hand_back": lambda chain, task, words, shown: tasks.hand_back(
        chain, task, claim=ticket_of(chain, task), reason=words
    ),
    "reclaim": lambda chain, task, words, shown: tasks.reclaim(chain, task),
}
_RUN_ACTS: Final[dict[str, Callable[[Chain, FlowRun], Any]]] = {
    "run_again": lambda chain, run: flows.run_again(chain, run, visit_id=run.current_visit_id),
    "mark_complete": lambda chain, run: flows.mark_complete(chain, run, visit_id=run.current_visit_id),
}
_DEBT_ACTS: Final[dict[str, Callable[[Chain, int], Any]]] = {
    "debt_retry": _retry_debt,
    "debt_drop": operating.drop,
}


async def _async(parts: Iterator[str]) -> AsyncIterator[str]:
    step = sync_to_async(lambda: next(parts, None))
    while (part := await step()) is not None:
        yield part

"""Acts on many rows of an admin list: asked once with the count, done row by row by a verb, a result for each row.

It decides nothing: whether a row may be acted on is the verb's answer, and the page shows that answer.
"""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import sync_to_async
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from boards import actors
from boards.actors import Chain
from boards.errors import Refusal
from boards.models import Member, User
from boards.tasks.types import Recorded, TaskWriteOutcome

if TYPE_CHECKING:
    from boards.admin.window import Window

BATCH = 50
_ROWS, _SUMS = "<!--rows-->", "<!--sums-->"  # where the template leaves room for what is sent as it is done


@dataclass(frozen=True, slots=True)
class Answered:
    """What the verb answered for one row."""

    done: bool
    sentence: str


@dataclass(frozen=True)
class Act:
    """One act: `verb(chain, row, words)` raises a Refusal, or answers an outcome or anything else when it is done.

    `asks` is the label of the words that the confirmation asks for ("" asks for none), `hits` says beforehand what else
    the act will touch.
    """

    name: str
    label: Any
    verb: Callable[[Chain, Any, str], Any]
    asks: Any = ""
    needs_words: bool = False
    hits: Callable[[QuerySet[Any]], str] = lambda rows: ""

    def run(self, page: Window, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponseBase:
        """The action that Django's list calls: first the question, and when that was answered, the work."""
        words = request.POST.get("words", "").strip()
        if request.POST.get("confirmed") != "yes" or (self.needs_words and not words):
            return self._question(page, request, rows)
        return self._work(page, request, rows, words)

    def _question(self, page: Window, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponseBase:
        context = self._context(page, request) | {
            "count": rows.count(),
            "first": rows[:10],
            "hits": self.hits(rows),
            "selected": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "select_across": request.POST.get("select_across", "0"),
            "words_missing": request.POST.get("confirmed") == "yes",
        }
        return TemplateResponse(request, "admin/boards/act_question.html", context)

    def _work(self, page: Window, request: HttpRequest, rows: QuerySet[Any], words: str) -> HttpResponseBase:
        keys = list(rows.values_list("pk", flat=True))
        context = self._context(page, request) | {"count": len(keys)}
        frame = render_to_string("admin/boards/act_result.html", context, request)
        parts = self._parts(page, request, keys, words, frame)
        content = _async(parts) if isinstance(request, ASGIRequest) else parts
        return StreamingHttpResponse(content, headers={"Cache-Control": "no-store"})

    def _context(self, page: Window, request: HttpRequest) -> dict[str, Any]:
        return page.admin_site.each_context(request) | {
            "act": self,
            "opts": page.model._meta,
            "title": self.label,
            "back": request.get_full_path(),  # the filter stands in it
        }

    def _parts(self, page: Window, request: HttpRequest, keys: list[Any], words: str, frame: str) -> Iterator[str]:
        """The page in pieces: batches of rows as they are done, so that ten thousand show how far they are."""
        before, after = frame.split(_ROWS)
        yield before
        chains = _Chains(cast(User, request.user).pk)
        done = 0
        remaining = iter(keys)
        while batch := list(islice(remaining, BATCH)):
            found = page.get_queryset(request).in_bulk(batch)
            answers = [(found[key], self._one(chains, page, found[key], words)) for key in batch if key in found]
            done += sum(answer.done for _row, answer in answers)
            yield "".join(_line(row, answer) for row, answer in answers)
        yield after.replace(_SUMS, html.escape(_sums(done, len(keys) - done)))

    def _one(self, chains: _Chains, page: Window, row: Model, words: str) -> Answered:
        chain = chains.of(page.space_id_of(row))
        if chain is None:
            return Answered(False, _("You are no member of its space."))
        try:
            return _read(self.verb(chain, row, words))
        except Refusal as refusal:
            return Answered(False, refusal.sentence)


class _Chains:
    """The caller's chain in each space, looked up once."""

    def __init__(self, user_id: int) -> None:
        self._user_id = user_id
        self._known: dict[int, Chain | None] = {}

    def of(self, space_id: int) -> Chain | None:
        if space_id not in self._known:
            member = Member.objects.filter(space=space_id, user=self._user_id).select_related("space", "user").first()
            self._known[space_id] = actors.person(member) if member else None
        return self._known[space_id]


def _read(answer: Any) -> Answered:
    if isinstance(answer, Answered):
        return answer
    if isinstance(answer, TaskWriteOutcome):
        if answer.result is Recorded.UNCHANGED:
            return Answered(True, _("it was so already"))
        return Answered(answer.landed, "" if answer.landed else answer.sentence or str(answer.reason))
    return Answered(True, "")


def _line(row: Model, answer: Answered) -> str:
    return render_to_string("admin/boards/_act_line.html", {"row": row, "answer": answer})


def _sums(done: int, declined: int) -> str:
    words = ngettext("%(n)d done", "%(n)d done", done) % {"n": done}
    if declined:
        words += ", " + ngettext("%(n)d declined", "%(n)d declined", declined) % {"n": declined}
    return words + "."


async def _async(parts: Iterator[str]) -> AsyncIterator[str]:
    step = sync_to_async(lambda: next(parts, None))
    while (part := await step()) is not None:
        yield part

"""What a page's act answers: a toast for a page with htmx, a message and a redirect for one without.

Every refusal is a sentence (spec: 08, section 2.6). The toast travels in the `HX-Trigger` header, so it arrives with
any status, and `static/js/toasts.js` shows it.
"""

from __future__ import annotations

from typing import Literal

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django_htmx.http import trigger_client_event

from boards.errors import Refusal

Tone = Literal["ok", "error"]


def acted(request: HttpRequest, sentence: str, *, back: str) -> HttpResponse:
    """The act is done: 204 with a toast, or back to the page `back` with the sentence at its head."""
    if getattr(request, "htmx", None):
        return with_toast(HttpResponse(status=204), sentence)
    if sentence:
        messages.success(request, sentence)
    return redirect(back)


def refused(request: HttpRequest, refusal: Refusal, *, back: str, href: str = "", link: str = "") -> HttpResponse:
    """The act was refused: the refusal's own status with a toast, or back to the page with the sentence."""
    if getattr(request, "htmx", None):
        answer = HttpResponse(status=refusal.http_status)
        return with_toast(answer, refusal.sentence, "error", href=href, link=link)
    messages.error(request, refusal.sentence)
    return redirect(back)


def with_toast(
    response: HttpResponse,
    sentence: str,
    tone: Tone = "ok",
    *,
    href: str = "",
    link: str = "",
    undo: str = "",
    seconds: float = 0,
) -> HttpResponse:
    """Add a toast to any answer; `link` is the text of a way to `href`, `undo` what takes the act back so long."""
    if sentence:
        detail: dict[str, object] = {"text": sentence, "tone": tone}
        detail |= {"href": href, "link": link} if href else {}
        detail |= {"undo": undo, "seconds": seconds} if undo else {}
        trigger_client_event(response, "toast", detail)
    return response

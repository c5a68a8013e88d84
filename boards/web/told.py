"""What a member is told: their settings, a test, the news that a page tells, and the links in messages (spec: 04, 4).

A link in a message shows one question to the member who was told, with the form that every other page has; a GET never
decides, and answering goes to `boards.web.holds`.
"""

from __future__ import annotations

from datetime import datetime, time
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.dateparse import parse_time
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from boards import telling
from boards.errors import InvalidInput, Refusal
from boards.models import Board, Channel, Delivery, Preference
from boards.queries import asks
from boards.queries.waiting_row import Row
from boards.telling import addresses, mailing
from boards.telling.wants import KINDS
from boards.web.answers import acted, refused
from boards.web.members import SPACE_KEY, MemberRequest, member_page


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def notifications(request: MemberRequest) -> HttpResponse:
    """The settings; a POST keeps them, or shows the form again with what is wrong."""
    if request.method == "POST":
        try:
            telling.save(request.member, _given(request))
        except InvalidInput as wrong:
            return _page(request, wrong, status=422)
        messages.success(request, _("Saved."))
        return redirect("web:notifications")
    return _page(request)


@require_POST
@member_page
def test_notification(request: MemberRequest, channel: str) -> HttpResponse:
    """Send a test over a channel as it was saved, and say what came of it."""
    if channel not in Channel.values:
        raise Http404
    back = resolve_url("web:notifications")
    try:
        telling.send_test(request.member, channel)
    except Refusal as refusal:
        return refused(request, refusal, back=back)
    return acted(request, _("A test is on its way."), back=back)


@require_POST
@member_page
def change_address(request: MemberRequest) -> HttpResponse:
    """Send a link to an address; it becomes the member's own once they open it."""
    back, address = resolve_url("web:notifications"), request.POST.get("address", "").strip()
    try:
        addresses.ask_to_confirm(request.member, address)
    except Refusal as refusal:
        return refused(request, refusal, back=back)
    return acted(request, _("A mail is on its way to %(to)s. Open its link.") % {"to": address}, back=back)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def confirm_address(request: MemberRequest, token: str) -> HttpResponse:
    """A GET asks, the button takes the address over: programs that preview links fetch them too."""
    user = request.member.user
    if request.method == "POST" and (address := addresses.confirm(user, token)):
        messages.success(request, _("Mail goes to %(to)s from now on.") % {"to": address})
        return redirect("web:notifications")
    found = addresses.address_in(user, token)
    return render(request, "told/address.html", {"address": found}, status=200 if found else 410)


@never_cache
@require_safe
@member_page
def news(request: MemberRequest) -> HttpResponse:
    """The rows that came up since `since`, for the page's own script; without it only the time to ask from."""
    found = telling.news(telling.preference_of(request.member), _moment(request.GET.get("since", "")))
    rows = []
    for one in found.found:
        title, body = telling.words_of(one)
        rows.append({"key": one.key, "title": title, "body": body, "href": _page_of(one.row)})
    return JsonResponse({"at": found.at.isoformat(), "quiet": found.quiet, "rows": rows})


@never_cache
@require_safe
@member_page
def told_link(request: MemberRequest, token: str) -> HttpResponse:
    """Where the link of a message leads: the question with its form; 410 with what became of it once it is closed."""
    delivery = telling.delivery_of(token)
    member = next((m for m in request.memberships if delivery is not None and m.pk == delivery.member_id), None)
    if delivery is None or member is None:
        raise Http404("There is no such page.")
    if member.pk != request.member.pk:
        request.session[SPACE_KEY] = member.space_id  # the form posts to the space that the message is about
        member.user, request.member = request.member.user, member
    if delivery.hold_id is None:
        return redirect(_subject_of(delivery))
    ask = asks.ask(member, delivery.hold_id)
    if ask is None or not ask.is_mine:
        raise Http404("There is no such question.")
    return render(request, "hold/page.html", {"ask": ask, "section": "needs"}, status=200 if ask.is_open else 410)


def _subject_of(delivery: Delivery) -> str:
    if delivery.failed_debt_id is None and delivery.task is not None:
        return resolve_url("web:task", delivery.task.board.slug, delivery.task.public_id)
    if delivery.failed_debt_id is None and delivery.run is not None:
        return resolve_url("web:run", delivery.run.flow.key, delivery.run.number)
    return resolve_url("web:needs_you")


def _page_of(row: Row) -> str:
    if row.hold_id:
        return resolve_url("web:hold", row.hold_id)
    if row.task_id and not row.debt_id:
        return resolve_url("web:task", row.board_slug, row.task_id)
    if row.flow_key and not row.debt_id:
        return resolve_url("web:run", row.flow_key, row.run_number)
    return resolve_url("web:needs_you")


def _given(request: MemberRequest) -> telling.Given:
    form = request.POST
    return telling.Given(
        browser="browser" in form,
        sound="sound" in form,
        email="email" in form,
        webhook="webhook" in form,
        webhook_url=form.get("webhook_url", "").strip(),
        kinds=form.getlist("kinds"),
        boards=[int(pk) for pk in form.getlist("boards") if pk.isascii() and pk.isdigit() and len(pk) < 19],
        pace=form.get("pace", ""),
        digest_at=_time(form.get("digest_at", ""), "digest_at") or time(8),
        quiet_from=_time(form.get("quiet_from", ""), "quiet_from"),
        quiet_to=_time(form.get("quiet_to", ""), "quiet_to"),
        zone=form.get("zone", ""),
    )


def _moment(text: str) -> datetime | None:
    """A moment as `news` gave it; None for anything else."""
    try:
        found = datetime.fromisoformat(text[:40])
    except ValueError:
        return None
    return found if found.tzinfo else None


def _time(text: str, field: str) -> time | None:
    try:
        found = parse_time(text) if text else None
    except ValueError:
        found = None
    if text and (found is None or found.tzinfo is not None):
        raise InvalidInput(_("Write a time like 22:00."), field=field)
    return found.replace(second=0, microsecond=0) if found else None


def _page(request: MemberRequest, wrong: InvalidInput | None = None, status: int = 200) -> HttpResponse:
    member = request.member
    told = telling.preference_of(member)
    form = request.POST if wrong else None
    muted = set(told.muted_boards.values_list("pk", flat=True)) if told.pk else set()
    boards = Board.objects.filter(space=member.space_id).order_by("name", "pk")
    context: dict[str, Any] = {
        "told": told,
        "shown": _typed(request) if form is not None else _kept(told),
        "kinds": [(g, g.value in form.getlist("kinds") if form else g.value not in told.muted_kinds) for g in KINDS],
        "boards": [(b, str(b.pk) in form.getlist("boards") if form else b.pk not in muted) for b in boards],
        "zones": sorted({"UTC", *(zone for zone in available_timezones() if "/" in zone)}),
        "test_channels": Channel.values,
        "paces": Preference.Pace.choices,
        "mail_is_set_up": mailing.is_set_up(),
        "links_work": bool(settings.SITE_URL),
        "wrong": wrong,
        "wrong_field": wrong.facts.get("field", "") if wrong else "",
    }
    return render(request, "told/page.html", context, status=status)


def _kept(told: Preference) -> dict[str, Any]:
    return {
        "browser": told.browser_since is not None,
        "sound": told.sound,
        "email": told.email_since is not None,
        "webhook": told.webhook_since is not None,
        "webhook_url": told.webhook_url,
        "pace": told.pace,
        "digest_at": f"{told.digest_at:%H:%M}",
        "quiet_from": f"{told.quiet_from:%H:%M}" if told.quiet_from else "",
        "quiet_to": f"{told.quiet_to:%H:%M}" if told.quiet_to else "",
        "zone": told.zone,
    }


def _typed(request: MemberRequest) -> dict[str, Any]:
    """What was sent, kept as it was typed."""
    form = request.POST
    ticks = {name: name in form for name in ("browser", "sound", "email", "webhook")}
    texts = ("webhook_url", "pace", "digest_at", "quiet_from", "quiet_to", "zone")
    return ticks | {name: form.get(name, "") for name in texts}

"""The home page: my boards, what waits on me, what runs, what ended (spec: 08 section 2)."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from boards.queries import catchup
from boards.queries.home import board_cards, recent_endings, running_now, startable_flows
from boards.queries.needs_you import waiting
from boards.web.members import MemberRequest, member_page

WAITING_ROWS = 8


@require_safe
@member_page
def home(request: MemberRequest) -> HttpResponse:
    space = request.member.space
    context = {
        "cursor": catchup.cursor(),  # before anything is read: what comes later is told over the socket
        "section": "home",
        "boards": board_cards(request.member),
        "waiting": waiting(request.member, limit=WAITING_ROWS),
        "running": running_now(request.member),
        "endings": recent_endings(request.member),
        "flows": startable_flows(space),
    }
    return render(request, "home.html", context)

"""The list of boards (spec: 08 section 2)."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from boards.queries.home import board_cards
from boards.web.members import MemberRequest, member_page


@require_safe
@member_page
def boards(request: MemberRequest) -> HttpResponse:
    return render(request, "boards.html", {"section": "boards", "boards": board_cards(request.member)})

"""What the frame around every page needs. It reads nothing until a template asks."""

from __future__ import annotations

import functools
from typing import Any

from django.http import HttpRequest

from boards.models import Member, Preference, Role
from boards.queries.needs_you import needs_counts


def frame(request: HttpRequest) -> dict[str, Any]:
    """The member, other spaces to go to, and the count of what waits; nothing for a stranger."""
    member = getattr(request, "member", None)
    if member is None:
        return {}
    counts = functools.cache(lambda: needs_counts(member))
    return {
        "member": member,
        "memberships": getattr(request, "memberships", [member]),
        "may_act": member.role in {Role.MEMBER, Role.OPERATOR},
        "told_here": _told_here(member),
        "needs_count": lambda: counts().blocking,
        "needs_to_read": lambda: counts().to_read,
    }


def _told_here(member: Member) -> str:
    """What the page's own script tells of new rows; read with the member."""
    try:
        told = member.preference
    except Preference.DoesNotExist:
        return ""
    return " ".join(name for name, on in (("browser", told.browser_since), ("sound", told.sound)) if on)

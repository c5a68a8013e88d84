"""What a member wants to be told: checked and kept, and tried out (spec: 04 section 4).

A channel that is turned on tells from that moment; one that is turned off forgets what it still owed when its debt is
next looked at.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import time, timedelta
from typing import Any, Final
from zoneinfo import available_timezones

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from boards.errors import InvalidInput, Refusal
from boards.models import Board, Channel, Member, Preference
from boards.outbound import BadAddress, NotNow, Refused, checked_url, new_secret, send_json
from boards.telling import links, mailing
from boards.telling.letters import sample
from boards.telling.mailing import send_mail
from boards.telling.wants import KINDS

BETWEEN_TESTS: Final = timedelta(seconds=10)


class TestTooSoon(Refusal):
    """A message was sent a moment ago. Wait ten seconds, then try again."""

    __test__ = False
    code = "too_many_tests"
    http_status = 429


class TestFailed(Refusal):
    """The message could not be sent."""

    __test__ = False
    code = "test_failed"
    http_status = 502


@dataclass(frozen=True, slots=True)
class Given:
    """What the member chose. `kinds` and `boards` are those that are to be told."""

    browser: bool = False
    sound: bool = False
    email: bool = False
    webhook: bool = False
    webhook_url: str = ""
    kinds: Collection[str] = ()
    boards: Collection[int] = ()
    pace: str = Preference.Pace.AT_ONCE
    digest_at: time = time(8)
    quiet_from: time | None = None
    quiet_to: time | None = None
    zone: str = "UTC"


def preference_of(member: Member) -> Preference:
    """The member's own row, or an unsaved one with everything off."""
    return Preference.objects.filter(member=member).first() or Preference(member=member)


def save(member: Member, given: Given) -> Preference:
    """Keep what was chosen. InvalidInput names the field."""
    _check(member, given)
    with transaction.atomic():
        Preference.objects.get_or_create(member=member)
        told = Preference.objects.select_for_update().get(member=member)
        boards = Board.objects.filter(space=member.space_id).exclude(pk__in=given.boards)
        known = [group.value for group in KINDS]
        changes: dict[str, Any] = {
            "browser_since": _since(told.browser_since, given.browser),
            "email_since": _since(told.email_since, given.email),
            "webhook_since": _since(told.webhook_since, given.webhook),
            "sound": given.sound,
            "webhook_url": given.webhook_url,
            "muted_kinds": [kind for kind in known if kind not in given.kinds],
            "pace": given.pace,
            "digest_at": given.digest_at,
            "quiet_from": given.quiet_from,
            "quiet_to": given.quiet_to,
            "zone": given.zone,
            "updated_at": Now(),
        }
        if given.webhook_url and not told.webhook_secret:
            changes["webhook_secret"] = new_secret()
        Preference.objects.filter(pk=told.pk).update(**changes)
        told.muted_boards.set(boards)
    told.refresh_from_db()
    return told


def send_test(member: Member, channel: str) -> None:
    """Send a message that says it is a test, now. Raises a Refusal with what went wrong."""
    told = preference_of(member)
    if channel not in Channel.values or (channel == Channel.WEBHOOK and not told.webhook_url):
        raise InvalidInput(_("Save the address of the webhook first."), field="webhook_url")
    take_turn(member)
    site = settings.SITE_URL.rstrip("/")
    what = sample(f"test.{uuid.uuid4().hex}", told, site, links.common_paths())
    try:
        if channel == Channel.EMAIL:
            send_mail(what, member.user.display, member.user.email)
        else:
            send_json(told.webhook_url, {"text": what.slack}, what.id, told.webhook_secret)
    except (Refused, NotNow) as error:
        raise TestFailed(str(error)) from error


def take_turn(member: Member) -> None:
    """One message at a member's own wish in ten seconds. Raises TestTooSoon."""
    Preference.objects.get_or_create(member=member)
    mine = Preference.objects.filter(Q(tested_at=None) | Q(tested_at__lt=Now() - BETWEEN_TESTS), member=member)
    if not mine.update(tested_at=Now()):
        raise TestTooSoon


def _since(was: Any, on: bool) -> Any:
    """From when a channel tells: from now where it was off."""
    return (was or Now()) if on else None


def _check(member: Member, given: Given) -> None:
    if given.webhook or given.webhook_url:
        try:
            checked_url(given.webhook_url)
        except BadAddress as error:
            raise InvalidInput(_(str(error)), field="webhook_url") from error
    if given.webhook and not settings.SITE_URL:
        raise InvalidInput(_("An operator has to set SITE_URL first: links begin with it."), field="webhook_url")
    if given.email and not mailing.is_set_up():
        raise InvalidInput(_("This installation sends no mail."), field="email")
    if given.email and not member.user.email:
        raise InvalidInput(_("Enter and confirm an e-mail address first."), field="email")
    if given.pace not in Preference.Pace.values:
        raise InvalidInput(_("Choose how often."), field="pace")
    if (given.quiet_from is None) != (given.quiet_to is None):
        raise InvalidInput(_("Quiet hours need a beginning and an end, or neither."), field="quiet_from")
    if given.zone != "UTC" and given.zone not in available_timezones():
        raise InvalidInput(_("Choose a time zone of the list."), field="zone")

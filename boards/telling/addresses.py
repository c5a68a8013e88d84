"""A member's own e-mail address: it becomes theirs when they open the link in a mail that was sent to it.

So nobody has mail sent to somebody else. The link is of one account and one address, and good for a day.
"""

from __future__ import annotations

import uuid
from typing import Final

from django.conf import settings
from django.core import signing
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.urls import reverse
from django.utils.translation import gettext as _

from boards.errors import InvalidInput
from boards.models import Member, User
from boards.outbound import NotNow, Refused
from boards.telling import links
from boards.telling.letters import Letter, Line
from boards.telling.mailing import is_set_up, send_mail
from boards.telling.preferences import TestFailed, take_turn

SALT: Final = "boards.telling.address"
GOOD_FOR_S: Final = 24 * 3600
LONGEST: Final = 254  # as an account keeps it


def ask_to_confirm(member: Member, address: str) -> None:
    """Send the link to the address. Raises InvalidInput and the refusals of a test."""
    try:
        if len(address) > LONGEST:
            raise ValidationError("too long")
        validate_email(address)
    except ValidationError as error:
        raise InvalidInput(_("Write an e-mail address like name@example.org."), field="address") from error
    if not is_set_up():
        raise InvalidInput(_("This installation sends no mail."), field="address")
    take_turn(member)
    site, paths = settings.SITE_URL.rstrip("/"), links.common_paths()
    token = signing.dumps([member.user_id, address], salt=SALT)
    line = Line(
        _("Is this your address?"),
        _("Confirm"),
        _("Somebody signed in as %(name)s asked for it.") % {"name": member.user.get_username()},
        _("If it was not you, do nothing. The link is good for a day."),
        site + reverse("web:confirm_address", args=[token]),
    )
    subject = _("Confirm your address for Orchestra")
    letter = Letter(f"address.{uuid.uuid4().hex}", subject, (line,), site + paths["all"], site + paths["settings"])
    try:
        send_mail(letter, member.user.display, address)
    except (Refused, NotNow) as error:
        raise TestFailed(str(error)) from error


def address_in(user: User, token: str) -> str | None:
    """The address that a link would make the user's own; None where it is another's, too old, or none of ours."""
    try:
        user_id, address = signing.loads(token, salt=SALT, max_age=GOOD_FOR_S)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return str(address) if user_id == user.pk else None


def confirm(user: User, token: str) -> str | None:
    """Make it the user's own; answers the address, or None as `address_in` does."""
    address = address_in(user, token)
    if address is not None:
        User.objects.filter(pk=user.pk).update(email=address)
    return address

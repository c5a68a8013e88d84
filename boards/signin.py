"""One-time sign-in links: how a person without a password gets in the first time (spec: 09 section 3).

Only a hash of the token is stored, the database's clock says when a link has run out, and a link is used by one
guarded update. It decides nothing about who may be sent one: commands do.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import reverse

from boards.models import SigninLink, User

LINK_LIFE = timedelta(minutes=15)


def make_signin_link(user: User) -> str:
    """A new link's path, good once, for 15 minutes, and only while `user` has no password."""
    token = secrets.token_urlsafe(32)
    SigninLink.objects.create(user=user, token_hash=_hash(token), expires_at=Now() + LINK_LIFE)
    return reverse("web:sign_in_link", args=[token])


def link_user(token: str) -> User | None:
    """Whom a link would sign in now; None where it was used, ran out, or its user has a password. Uses nothing."""
    found = _open_links(token).select_related("user").first()
    return found.user if found else None


def use_signin_link(token: str) -> User | None:
    """Use the link up and answer its user; of two at the same instant one gets None."""
    user = link_user(token)
    if user is None or not _open_links(token).update(used_at=Now()):
        return None
    return user


def _open_links(token: str) -> QuerySet[SigninLink]:
    return SigninLink.objects.filter(
        token_hash=_hash(token),
        used_at__isnull=True,
        expires_at__gt=Now(),
        user__is_active=True,
        user__password__startswith=UNUSABLE_PASSWORD_PREFIX,
    )


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

"""`manage.py signin`: prints a sign-in link for a member without a password, to whoever may run commands here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from boards.demo.first_space import first_operator
from boards.models import User
from boards.signin import make_signin_link


class Command(BaseCommand):
    help = "Print a link that signs a member without a password in: once, within 15 minutes."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", help="User name (default: the first operator).")
        parser.add_argument("--data-dir", help="The data folder, where it is not the usual one.")

    def handle(self, *args: Any, **options: Any) -> None:
        user = _user(options["user"])
        if not user.is_active:
            raise CommandError(
                f"The account {user.username} is switched off. An operator can switch it on in the admin."
            )
        if user.has_usable_password():
            raise CommandError(
                f"{user.username} has a password and signs in with it. If it is forgotten, set a new one: "
                f"uv run manage.py changepassword {user.username}"
            )
        self.stdout.write(site_url() + make_signin_link(user))


def _user(name: str | None) -> User:
    user = User.objects.filter(username=name).first() if name else first_operator()
    if user is None:
        known = ", ".join(User.objects.filter(is_active=True).order_by("pk").values_list("username", flat=True)[:20])
        raise CommandError(
            f"Nobody is called {name}. There is {known or 'nobody yet'}."
            if name
            else "There is no operator yet: uv run manage.py up makes the first one."
        )
    return user


def site_url() -> str:
    """SITE_URL, else where `up` served last, else its usual address."""
    served = Path(settings.DATA_DIR) / "address"
    address = settings.SITE_URL or (served.read_text().strip() if served.exists() else "")
    return (address or "http://127.0.0.1:8000").rstrip("/")

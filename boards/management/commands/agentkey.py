"""`manage.py agentkey`: make, list and revoke keys of members for agents, from the shell."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models.functions import Now
from django.utils.dateparse import parse_datetime
from django.views.decorators.debug import sensitive_variables

from boards import actors, keys
from boards.errors import Refusal
from boards.models import AgentKey, Board, Member, Role, Scope


class Command(BaseCommand):
    help = "Make, list or revoke keys by which agents act for members."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        create = acts.add_parser("create", help="make a key and print it, this once")
        create.add_argument("name", help="the agent's name, such as release-bot")
        create.add_argument("--scope", action="append", default=[], choices=Scope.values, help="may be repeated (read)")
        create.add_argument(
            "--board", action="append", default=[], metavar="SLUG", help="may be repeated (every board)"
        )
        create.add_argument("--expires", default="", metavar="TIME", help="such as 2027-01-31T12:00+00:00 (never)")
        listed = acts.add_parser("list", help="list the keys")
        revoked = acts.add_parser("revoke", help="revoke a key by its number or the beginning that is shown of it")
        revoked.add_argument("key")
        for each in (create, listed, revoked):
            each.add_argument("--user", default="", help="the member (the first operator; of list: everybody)")
            each.add_argument("--space", default="", help="the space's slug, where there are several")
            each.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, act: str, **options: Any) -> None:
        try:
            getattr(self, f"_{act}")(**options)
        except Refusal as refusal:
            raise CommandError(refusal.sentence, returncode=1) from None

    @sensitive_variables("secret")
    def _create(self, name: str, scope: list[str], board: list[str], expires: str, **options: Any) -> None:
        member = _member(options["user"], options["space"])
        fields = keys.KeyFields(name, scope or [Scope.READ], _boards(member, board), _moment(expires))
        key, secret = keys.make(actors.person(member), fields)
        if options["json"]:
            self.stdout.write(json.dumps(_told(key) | {"key": secret}))
            return
        self.stdout.write(f"{key.name} acts for {member.user.display} and may: {', '.join(key.scopes)}.")
        self.stdout.write("The key, shown this once:")
        self.stdout.write(secret)

    def _list(self, **options: Any) -> None:
        rows = AgentKey.objects.select_related("member__user", "member__space").prefetch_related("boards")
        rows = rows.annotate(db_now=Now()).order_by("pk")
        if options["space"]:
            rows = rows.filter(member__space__slug=options["space"])
        if options["user"]:
            rows = rows.filter(member__user__username=options["user"])
        if options["json"]:
            self.stdout.write(json.dumps([_told(key) for key in rows]))
            return
        for key in rows:
            where = "every board" if key.every_board else ", ".join(b.slug for b in key.boards.all()) or "no board left"
            whose = f"{key.member.user.username} in {key.member.space.slug}"
            self.stdout.write(
                f"{key.pk}  {key.prefix}…  {key.name}  of {whose}  {','.join(key.scopes)}  {where}  {_state(key)}"
            )

    def _revoke(self, key: str, **options: Any) -> None:
        rows = AgentKey.objects.select_related("member__user", "member__space")
        is_number = key.isascii() and key.isdigit() and len(key) < 19
        found = list(rows.filter(pk=int(key)) if is_number else rows.filter(prefix=key.rstrip("…")))
        if len(found) != 1:
            raise CommandError(f"There is no key {key[:20]}. manage.py agentkey list names them.", returncode=1)
        done = keys.revoke(_revoker(found[0], options["user"]), found[0])
        if options["json"]:
            self.stdout.write(json.dumps({"number": found[0].pk, "revoked": done}))
            return
        self.stdout.write(f"{found[0].name} is revoked." if done else f"{found[0].name} was revoked already.")


def _revoker(key: AgentKey, username: str) -> actors.Chain:
    """Whoever is named, else whose key it is, as far as they may still manage keys; else an operator of the space."""
    if username:
        return actors.person(_member(username, key.member.space.slug))
    if key.member.role != Role.VIEWER:
        return actors.person(key.member)
    return actors.person(_member("", key.member.space.slug))


def _member(username: str, space: str) -> Member:
    members = Member.objects.filter(user__is_active=True).select_related("user", "space").order_by("pk")
    if space:
        members = members.filter(space__slug=space)
    members = members.filter(user__username=username) if username else members.filter(role=Role.OPERATOR)
    found = list(members)
    if not found:
        raise CommandError(f"Nobody called {username or 'an operator'} is a member here.", returncode=1)
    if len({member.space_id for member in found}) > 1:
        names = ", ".join(sorted({member.space.slug for member in found}))
        raise CommandError(f"Name the space with --space. There is {names}.", returncode=1)
    return found[0]


def _boards(member: Member, slugs: list[str]) -> list[int] | None:
    if not slugs:
        return None
    found = dict(Board.objects.filter(space=member.space_id).values_list("slug", "pk"))
    if missing := [slug for slug in slugs if slug not in found]:
        known = ", ".join(sorted(found)) or "none"
        raise CommandError(f'There is no board "{missing[0]}" in {member.space.name}. There is {known}.', returncode=1)
    return [found[slug] for slug in slugs]


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise CommandError("Write --expires as a time with its offset, such as 2027-01-31T12:00+00:00.", returncode=1)
    return found


def _state(key: Any) -> str:
    if key.revoked_at:
        return "revoked"
    if key.expires_at and key.expires_at <= key.db_now:
        return "past its time"
    return f"until {key.expires_at:%Y-%m-%d %H:%M} UTC" if key.expires_at else "no end"


def _told(key: AgentKey) -> dict[str, Any]:
    return {
        "number": key.pk,
        "name": key.name,
        "prefix": key.prefix,
        "member": key.member.user.username,
        "space": key.member.space.slug,
        "scopes": list(key.scopes),
        "boards": None if key.every_board else [board.slug for board in key.boards.all()],
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "last_used_at": key.last_used_at.isoformat() if key.last_used_at else None,
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
    }

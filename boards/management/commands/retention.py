"""`manage.py retention`: removes what ended long ago, at once and whatever the sweeper is told (spec: 07 section 4)."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from boards import tasks

BATCH = 1_000


class Command(BaseCommand):
    help = "Remove tasks that ended more than --days days ago, each only with all that hangs together with it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--days", type=int, help="How many days are kept (default: RETENTION_DAYS).")
        parser.add_argument(
            "--events", action="store_true", help="Also the log's older events whose task and run are gone."
        )
        parser.add_argument("--dry-run", action="store_true", help="Say how many tasks would go, and remove nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        days = settings.RETENTION_DAYS if options["days"] is None else options["days"]
        if days < 1:
            raise CommandError("Say how many days are kept: --days 90, or set RETENTION_DAYS.")
        removed = _tasks(days, dry=options["dry_run"])
        what = "would go" if options["dry_run"] else "removed"
        self.stdout.write(f"{removed:,} tasks that ended more than {days} days ago {what}.")
        if options["events"] and not options["dry_run"]:
            self.stdout.write(f"{_events(days):,} events about what is gone removed.")


def _tasks(days: int, *, dry: bool) -> int:
    removed, after_key = 0, 0
    while True:
        part = tasks.remove_ended(days, limit=BATCH, after_key=after_key, dry=dry)
        removed += part.tasks
        if part.next_key is None:
            return removed
        after_key = part.next_key


def _events(days: int) -> int:
    dropped = 0
    while part := tasks.drop_events(days, limit=BATCH):
        dropped += part
    return dropped

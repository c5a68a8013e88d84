"""`manage.py doctor`: looks at everything this installation needs and says it in plain lines. It repairs nothing."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError

from boards.queries import health

LOOKS = (
    health.migrations,
    health.sweepers,
    health.drains,
    health.listeners,
    health.debts,
    health.counters,
    health.keys,
)


class Command(BaseCommand):
    help = "Say in plain lines whether database, migrations, drains and sweeper are well; exit code 1 if not."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data-dir", help="The data folder, where it is not the usual one.")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = _look()
        for finding in findings:
            mark = "ok     " if finding.ok else "problem"
            self.stdout.write(f"{mark}  {finding.name}: {finding.sentence}")
        if not all(finding.ok for finding in findings):
            sys.exit(1)


def _look() -> list[health.Finding]:
    """The database first: without it, or before its tables are there, nothing else can be asked."""
    try:
        found = [health.database()]
        for look in LOOKS:
            found.append(look())
            if look is health.migrations and not found[-1].ok:
                break
    except DatabaseError as error:
        return [health.Finding("database", False, f"It does not answer: {error}".strip())]
    still = {finding.name for finding in found if not finding.ok}
    if {"sweeper", "drains"} <= still:
        found.append(health.Finding("all of it", False, "Neither runs: manage.py up starts everything on one machine."))
    return found

"""`manage.py bench`: measures this installation against plain SQL on its own server (spec: 10)."""

from __future__ import annotations

import json
from argparse import RawDescriptionHelpFormatter
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from boards.bench import places
from boards.bench.measures import MEASURES, Result
from orchestra import collector, embedded


class Command(BaseCommand):
    help = "Measure one thing in a database of its own, which is dropped afterwards:\n" + "\n".join(
        f"  {name:8} {measure.about}" for name, measure in MEASURES.items()
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=sorted(MEASURES))
        parser.add_argument("--n", type=int, help="How many tasks, samples or rows; each measurement has its own.")
        parser.add_argument("--drains", type=int, default=1, help="How many drain processes work (1).")
        parser.add_argument("--json", action="store_true", help="Print one JSON object on the last line.")

    def handle(self, *args: Any, **options: Any) -> None:
        embedded.exit_on_sigterm()  # else a stopped run would leave its database behind
        measure = MEASURES[options["what"]]
        n = measure.n if options["n"] is None else options["n"]
        if n < 1 or options["drains"] < 1:
            raise CommandError("--n and --drains must be 1 or more.")
        try:
            facts = places.facts()
            collector.spare()  # as each process of the product does
            result = measure.run(n, options["drains"])
        except psycopg.errors.InsufficientPrivilege as error:
            raise CommandError(f"The bench makes a database of its own and may not: {error}") from None
        Console(highlight=False).print(_table(options["what"], measure.about, result, facts))
        if options["json"]:
            self.stdout.write(json.dumps({**result.numbers, **facts}))


def _table(name: str, about: str, result: Result, facts: dict[str, Any]) -> Table:
    where = f"PostgreSQL {facts['postgres']}, {facts['host_cores']} cores, durable commits"
    table = Table("Measured", "Result", title=f"{name}: {about}", caption=where)
    for what, how_much in result.said:
        table.add_row(what, how_much)
    return table

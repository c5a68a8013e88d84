"""`manage.py drain`: claims and runs tasks until it is told to stop (spec: 03 section 3)."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.text import Text

from boards import live_notices
from boards.live_notices import Listener
from boards.models import Board
from boards.workers.loop import Drain
from boards.workers.options import DrainEnd, DrainOptions
from orchestra import collector, embedded


class Command(BaseCommand):
    help = "Claim and run tasks. SIGTERM or Ctrl-C hands unfinished work back; a second one does so at once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--board", action="append", default=[], help="Serve this board only (repeatable).")
        parser.add_argument("--concurrency", type=int, default=16, help="Tasks at once, over all boards (16).")
        parser.add_argument(
            "--grace", type=float, help="Seconds that work may take to finish after SIGTERM (DRAIN_GRACE_MS)."
        )
        parser.add_argument("--until-idle", action="store_true", help="Work the boards until they are idle.")
        parser.add_argument("--once", action="store_true", help="Claim once, finish that, and leave.")

    def handle(self, *args: Any, **options: Any) -> None:
        screen = Console(highlight=False, soft_wrap=True)
        drain = Drain(self._options(options), functools.partial(_say, screen))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: drain.stop(number))
        _say(screen, f"drain {drain.presence.host} {os.getpid()} is ready, {drain.options.concurrency} slots")
        collector.spare()
        with live_notices.sent_aside():  # what it has claimed starts first
            end = drain.run(Listener())
        _say(screen, " ".join(part for part in (f"drain ended: {end.reason}.", end.counts) if part))
        if end.unrecorded:
            _say(screen, f"could not record, see Needs you: {', '.join(end.unrecorded)}")
        self._leave(end)

    def _options(self, options: dict[str, Any]) -> DrainOptions:
        if options["concurrency"] < 1:
            raise CommandError("--concurrency must be 1 or more.")
        known = set(Board.objects.filter(slug__in=options["board"]).values_list("slug", flat=True))
        unknown = sorted(set(options["board"]) - known)
        if unknown:
            raise CommandError(f"There is no board {', '.join(unknown)}.")
        grace_s = settings.DRAIN_GRACE_MS / 1000 if options["grace"] is None else options["grace"]
        return DrainOptions(
            boards=tuple(options["board"]),
            concurrency=options["concurrency"],
            grace_s=max(0.0, grace_s),
            poll_s=settings.POLL_MS / 1000,
            until_idle=options["until_idle"],
            once=options["once"],
        )

    def _leave(self, end: DrainEnd) -> None:
        code = 1 if end.failed else 0
        if end.stuck:
            # Threads that never end would make the interpreter's own ending unsafe: leave without it.
            live_notices.close()
            embedded.stop_if_last()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        if code:
            sys.exit(code)


def _say(screen: Console, line: str) -> None:
    """A line for people; nobody may be there to read it any more."""
    with contextlib.suppress(OSError):
        screen.print(Text(line))

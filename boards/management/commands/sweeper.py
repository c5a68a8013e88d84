"""`manage.py sweeper`: sees to what is past its time, until it is told to stop (spec: 07 section 4)."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from rich.console import Console
from rich.text import Text

from boards import sweeping, telling
from boards.live_notices import Inbox, Listener
from boards.models import Process
from boards.workers.databases import AWAY, let_go
from boards.workers.processes import BEAT_S, Presence
from orchestra import collector

log = logging.getLogger(__name__)

SOONEST_S = 0.2  # between two passes, however many notices come
BACKOFF_S = (0.2, 2.0)
TIDY_S = 60.0


class Command(BaseCommand):
    help = "Pay debts and watch deadlines. Any number may run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="One pass, and leave.")

    def handle(self, *args: Any, **options: Any) -> None:
        screen = Console(highlight=False, soft_wrap=True)
        if options["once"]:
            report = sweeping.sweep_once()
            screen.print(Text(f"swept: {report or 'nothing was due'}"))
            return
        collector.spare()
        Sweeper(screen).run()


class Sweeper:
    """The thin loop around `sweeping.sweep_once`."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._listener = Listener()
        self._inbox = Inbox(self._listener)
        self._presence = Presence(Process.Kind.SWEEPER)
        self._stopping = False
        self._next_beat = 0.0
        self._next_note = 0.0
        self._next_tidying = 0.0
        self._away = 0

    def stop(self) -> None:
        self._stopping = True
        self._inbox.wake()

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self.stop())
        self._listener.start()
        telling.carriers.start()  # a receiver that does not answer holds no deadline up
        self._screen.print(Text(f"sweeper {self._presence.host} {os.getpid()} is ready"))
        while not self._stopping:
            pause = self._work()
            time_to_wait = time.monotonic() + SOONEST_S
            if not self._stopping:
                self._inbox.wait(pause)
            while not self._stopping and (left := time_to_wait - time.monotonic()) > 0:
                self._inbox.wait(left)  # a storm of notices is one pass
        self._listener.stop()
        telling.carriers.stop()
        if not self._away:
            self._presence.sign_off()
        self._screen.print(Text("sweeper ended."))

    def _work(self) -> float:
        """One pass and a beat; answers how long to sleep."""
        try:
            self._beat()
            report = sweeping.sweep_once(tidies=time.monotonic() >= self._next_tidying)
            self._note_pass()
            self._plan_tidying(report)
            if report.total:
                self._screen.print(Text(f"swept: {report}"))
            pause = sweeping.seconds_to_next(settings.POLL_MS / 1000)
            self._away = 0
        except AWAY as error:
            if not self._away:
                log.warning("The database is away; the sweeper goes on when it is back: %s", error)
            self._away += 1
            let_go()
            least, most = BACKOFF_S
            pause = min(most, least * 2 ** min(self._away, 10)) * random.uniform(0.5, 1)  # noqa: S311 (jitter)
        return pause

    def _plan_tidying(self, report: sweeping.SweepReport) -> None:
        """What has been kept for its time may go a minute later, unless there is more of it than one pass takes."""
        if report.has_more:
            self._next_tidying = 0.0
        elif time.monotonic() >= self._next_tidying:
            self._next_tidying = time.monotonic() + TIDY_S

    def _note_pass(self) -> None:
        """As rarely as a beat: a storm of notices brings five passes a second."""
        if time.monotonic() >= self._next_note:
            self._presence.swept()
            self._next_note = time.monotonic() + BEAT_S

    def _beat(self) -> None:
        if time.monotonic() >= self._next_beat:
            self._presence.listening = self._listener.listening
            self._presence.beat()
            self._next_beat = time.monotonic() + BEAT_S

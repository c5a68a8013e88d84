"""What a drain is started with, how it ended, and the adapters that it runs work with."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import connections

from boards.models import RosterEntry
from boards.workers.adapters import Adapter
from boards.workers.adapters.command import CommandAdapter, Place
from boards.workers.adapters.python import PythonAdapter
from boards.workers.databases import own_connection, tend_async


@dataclass(frozen=True)
class DrainOptions:
    """What `manage.py drain` takes. `boards`: slugs, none means all."""

    boards: tuple[str, ...] = ()
    concurrency: int = 16
    grace_s: float = 10.0
    poll_s: float = 2.0
    until_idle: bool = False
    once: bool = False


@dataclass(frozen=True, slots=True)
class DrainEnd:
    """How a drain ended. `stuck`: threads still run, so the process has to leave without waiting for them.

    `unrecorded`: the tasks whose result could not be recorded in the ordinary way, and what is known of it.
    """

    reason: str
    counts: str = ""
    failed: bool = False
    stuck: bool = False
    unrecorded: tuple[str, ...] = ()


def default_adapters(options: DrainOptions) -> dict[str, Adapter]:
    """The adapters of a drain by roster kind."""
    return {
        RosterEntry.Kind.PYTHON: PythonAdapter(options.concurrency, own_connection, tend_async, connections.close_all),
        RosterEntry.Kind.COMMAND: CommandAdapter(Place(settings.COMMAND_ROOT, settings.BASE_DIR)),
    }

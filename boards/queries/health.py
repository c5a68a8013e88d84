"""Reads whether this installation can work: database, migrations, sweeper, drains, what is owed (spec: 09, section 2).

Serves `/readyz` and `manage.py doctor`. It writes nothing, and its sentences hold no address and no name of a server:
anyone may ask `/readyz`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.timesince import timesince

from boards.models import AgentKey, Debt, Process
from boards.queries import sweeper
from boards.queries.sweeper import SILENT_AFTER

KEY_ENDS_SOON = timedelta(days=7)

_migrated = False  # once true it stays true for the code of this process


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `ok` False: it does not work and somebody has to act."""

    name: str
    ok: bool
    sentence: str


def readiness() -> list[Finding]:
    """What has to be well before this process may be sent traffic; the first that fails hides those behind it."""
    found: list[Finding] = []
    for look in (database, migrations, sweepers):
        try:
            found.append(look())
        except DatabaseError:
            found.append(Finding("database", False, "The database does not answer."))
        if not found[-1].ok:
            return found
    # Told, but no reason to send traffic elsewhere: every process sees the same rows.
    return [*found, Finding("counters", True, counters().sentence)]


def database() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute("select current_setting('server_version')")
        version = cursor.fetchone()[0]
    return Finding("database", True, f"PostgreSQL {version} answers.")


def migrations() -> Finding:
    global _migrated
    if not _migrated:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if missing:
            return Finding("migrations", False, f"{len(missing)} migrations are not applied: run manage.py migrate.")
        _migrated = True
    return Finding("migrations", True, "All migrations are applied.")


def sweepers() -> Finding:
    """Whether somebody watches the deadlines and pays what is owed."""
    alive = _alive(Process.Kind.SWEEPER)
    last = Process.objects.filter(kind=Process.Kind.SWEEPER).order_by("-beat_at").first()
    if alive:
        return Finding("sweeper", True, f"{alive} alive. {sweeper.words(sweeper.watch())}")
    if last is None:
        return Finding("sweeper", False, "No sweeper has ever run: start manage.py sweeper.")
    return Finding(
        "sweeper", False, f"The last sweeper was heard of {timesince(last.beat_at)} ago: start manage.py sweeper."
    )


def drains() -> Finding:
    alive = _alive(Process.Kind.DRAIN)
    if not alive:
        return Finding("drains", False, "No drain is alive, so no agent works: start manage.py drain.")
    return Finding("drains", True, f"{alive} alive.")


def listeners() -> Finding:
    """Processes whose listener is down pick work up by polling: slower, and nothing is lost."""
    deaf = _alive(Process.Kind.DRAIN, listening=False) + _alive(Process.Kind.SWEEPER, listening=False)
    if deaf:
        who = (
            "1 process hears no change notices and works"
            if deaf == 1
            else f"{deaf} processes hear no change notices and work"
        )
        return Finding("listener", True, f"{who} by polling.")
    return Finding("listener", True, "Every living drain and sweeper hears change notices.")


def debts() -> Finding:
    """What should have been paid a minute ago, and what failed for good."""
    late = Debt.objects.filter(state=Debt.State.OWED, after=None, due_at__lt=Now() - SILENT_AFTER).count()
    dead = Debt.objects.filter(state=Debt.State.UNDELIVERABLE).exclude(kind="recount").count()
    where = ": see Debts in the admin" if late or dead else ""
    return Finding("debts", not late and not dead, f"{late} overdue, {dead} failed for good{where}.")


def counters() -> Finding:
    """What the sweeper's recount found and no operator has marked as seen."""
    wrong = Debt.objects.filter(kind="recount").count()
    where = ": see Needs you, or Debts in the admin" if wrong else ""
    return Finding("counters", not wrong, f"{wrong} differ from a recount{where}.")


def keys() -> Finding:
    """Keys of agents that end soon: nothing is wrong, but somebody may want to make new ones."""
    live = AgentKey.objects.filter(revoked_at=None)
    soon = live.filter(expires_at__gt=Now(), expires_at__lte=Now() + KEY_ENDS_SOON).order_by("expires_at")
    named = ", ".join(f"{key.name} ({key.prefix}…) at {key.expires_at:%Y-%m-%d %H:%M} UTC" for key in soon[:5])
    more = soon.count() - 5
    told = f"{named}{f' and {more} more' if more > 0 else ''}" if named else "none"
    return Finding("keys", True, f"{told} end{'' if named else 's'} within 7 days.")


def _alive(kind: str, **filters: bool) -> int:
    fresh = Q(stopped_at=None, beat_at__gt=Now() - SILENT_AFTER)
    return Process.objects.filter(fresh, kind=kind, **filters).count()

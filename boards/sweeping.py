"""One pass of the sweeper: what is past its time and nobody has seen to (spec: 07 section 4).

Any number of sweepers may run: each effect is guarded by its own row, not by a leader. A lapsed row is never
put back to pending here: the next claim takes it, and one whose allowance is spent is settled as a claim
would. One part that fails does not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Cast, Now, Substr

from boards import flows, keys, live_notices, people, tasks, telling, upkeep
from boards.actors import service
from boards.debts import paying
from boards.each import each_by_itself
from boards.flows.steps import simple
from boards.models import Debt, IdempotencyKey, Process, Task
from boards.queries import read_rows
from boards.queries.drains import silent_drains
from boards.states import Status
from boards.workers.databases import AWAY

log = logging.getLogger(__name__)

LIMIT: Final = 200
SILENT: Final = timedelta(seconds=30)  # a drain that says nothing for longer is dead, and its children with it
STOP_HOLDS: Final = timedelta(seconds=30)  # beyond the grace, for a stop that does not succeed
FORGOTTEN: Final = timedelta(minutes=10)  # rows of dead processes are kept so long for people to see
KEYS_KEPT: Final = timedelta(days=7)

_told_silent: set[str] = set()  # ids of the drains that pages were told are silent
_told_lapsed: frozenset[tuple[int, datetime]] = frozenset()  # tasks and the end of the lease that was told
_told_silent_runs: frozenset[int] = frozenset()  # keys of the tasks whose workers are


@dataclass
class SweepReport:
    """What one pass did, by name; `failed` names the parts that raised. `has_more`: there is more to tidy up."""

    done: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    has_more: bool = False

    @property
    def total(self) -> int:
        return sum(self.done.values())

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self.done.items() if count)


# For a part that takes long to look: whether there is anything at all of the kind that it looks through. Each condition
# is wider than the part's own, which decides.
_THERE: Final = """
select array_remove(array[
  case when exists (select from boards_visit where left_at is null and due_at <= statement_timestamp())
         or exists (select from boards_branch where ended_at is null and due_at <= statement_timestamp())
       then 'past due times' end,
  case when exists (select from boards_eventwait) and exists (select from boards_keptevent where taken_at is null)
       then 'events' end,
  case when exists (select from boards_task where lease_until is not null) then 'workers' end,
  case when exists (select from boards_debt where after_id is not null) then 'chained debts' end,
  case when exists (select from boards_debt where state = 'owed' and kind = 'session_stop') then 'stops' end,
  case when exists (select from boards_preference where email_since is not null or webhook_since is not null)
         or exists (select from boards_logreader where cursor <> '') then 'subscribers' end
], null)"""
_TIDYING: Final = "tidying"


def sweep_once(limit: int = LIMIT, *, tidies: bool = True) -> SweepReport:
    """Do everything that is due. Raises only what an absent database raises.

    `tidies`: also drop what is kept for some time only, which waits as well for a later pass.
    """
    # By name: what there has to be for it ("" where it is soon asked), and the part.
    parts: dict[str, tuple[str, Callable[[int], int]]] = {
        "abandoned": ("", lambda most: tasks.abandon_spent(limit=most)),
        "lost workers told": ("", wake_lapsed),
        "silent drains told": ("", tell_silent_drains),
        "silent runs told": ("workers", tell_silent_runs),
        # Before the questions: past a step's due time nothing of its task is answered by silence any more.
        "tasks withdrawn": ("past due times", flows.withdraw_due),
        "questions past their time": ("", people.expire_due),
        "runs started by schedules": ("", flows.start_due),
        "events matched": ("events", match_events),
        "runs let into their step": ("", flows.promote_waiting),
        "runs archived": ("", flows.archive_due),
        "waits of runs ended": ("past due times", end_waits),
        "chains freed from a stop": ("chained debts", free_late_chains),
        "messages owed": ("subscribers", lambda most: telling.collect()),
        "debts paid": ("", paying.pay_due),
        "kept tasks looked at": (_TIDYING, tasks.settle_kept),
        "stops of dead drains paid": ("stops", pay_stops_of_dead_drains),
        "processes forgotten": (_TIDYING, forget_processes),
        "idempotency keys dropped": (_TIDYING, drop_old_keys),
        "old tasks removed": ("", upkeep.remove_old),
        "counters that differ": ("", upkeep.recount),
        "old deliveries forgotten": (_TIDYING, telling.forget_deliveries),
        "old events forgotten": (_TIDYING, flows.forget_events),
        "old webhook messages forgotten": (_TIDYING, flows.forget_calls),
        "old counts of calls forgotten": (_TIDYING, keys.forget_counts),
    }
    report = SweepReport()
    there: set[str] | None = None  # not known, or no longer: a part may have left something for a later one
    for name, (kind, part) in parts.items():
        try:
            there = _there() if there is None else there
            looks = kind in there if kind and kind != _TIDYING else tidies or not kind
            report.done[name] = part(limit) if looks else 0
            there = None if report.done[name] else there
        except AWAY:
            raise
        except Exception:
            log.exception("The sweeper failed at: %s", name)
            report.failed.append(name)
        report.has_more |= kind == _TIDYING and report.done.get(name, 0) >= limit
    return report


def _there() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(_THERE)
        (kinds,) = cursor.fetchone()
    return set(kinds)


def wake_lapsed(limit: int = LIMIT) -> int:
    """Tell drains and open pages, once, of the tasks whose lease ran out; answers of how many.

    A task of an outside worker may stay so for hours: told in each pass, every notice of it would bring the next pass.
    The newest come first, so that those which stay leave room. Kept in this process's memory alone; drains look also
    by themselves.
    """
    global _told_lapsed
    lapsed = Task.objects.filter(status=Status.IN_PROGRESS, lease_until__lte=Now()).order_by("-lease_until")
    rows = lapsed.values_list("pk", "lease_until", "board_id")[:limit]
    found = {(key, until): board_id for key, until, board_id in rows if until is not None}
    fresh = found.keys() - _told_lapsed
    for key, until in fresh:
        live_notices.changed(found[key, until], task_key=key)
    _told_lapsed = frozenset(found)
    return len(fresh)


def tell_silent_drains(limit: int = LIMIT) -> int:
    """Tell open pages of the tasks whose drain has fallen silent, or is back, since the last pass; on how many.

    Kept in this process's memory alone: a sweeper that starts tells once more, and that costs a reading only.
    """
    silent = {str(pk) for pk in silent_drains().values_list("pk", flat=True)}
    changed = silent ^ _told_silent
    if not changed:
        return 0
    leased = Task.objects.filter(status=Status.IN_PROGRESS, lease_until__isnull=False)
    theirs = leased.filter(claimed_by__drain__in=sorted(changed)).order_by("pk").values_list("board_id", "pk")
    found = list(theirs[:limit])
    for board_id, key in found:
        live_notices.changed(board_id, task_key=key)
    live_notices.changed(None, process=True)
    _told_silent.clear()
    _told_silent.update(silent)
    return len(found)


def tell_silent_runs(limit: int = LIMIT) -> int:
    """Tell open pages of the tasks whose worker has said nothing for long, once; what it says next tells by itself.

    Kept in this process's memory alone, as above.
    """
    global _told_silent_runs
    found = dict(read_rows.silent(Task.objects.all()).order_by("pk").values_list("pk", "board_id")[:limit])
    fresh = found.keys() - _told_silent_runs
    for board_id in {found[key] for key in fresh}:
        live_notices.changed(board_id)
    _told_silent_runs = frozenset(found)
    return len(fresh)


def pay_stops_of_dead_drains(limit: int = LIMIT) -> int:
    """A stop counts as paid once its drain is silent and the attempt's last lease has run out (spec: 07,
    2.1).
    """
    drain = Process.objects.filter(pk=Cast(Substr(OuterRef("payer"), 7), Process._meta.pk))
    alive = drain.filter(stopped_at=None, beat_at__gt=Now() - SILENT)
    due = Debt.objects.filter(kind="session_stop", payer__startswith="drain:", state=Debt.State.OWED)
    orphans = due.filter(~Exists(alive), due_at__lte=Now(), after=None).order_by("due_at", "pk")
    ids = [debt.pk for debt in orphans.select_related("task__board")[:limit] if _lease_is_over(debt)]
    return sum(paying.pay(debt_id) is paying.Paid.PAID for debt_id in ids)


def free_late_chains(limit: int = LIMIT) -> int:
    """A withdraw's clean-up waits for the stop no longer than the drain's grace and 30 s; the stop stays owed, and
    operators see it (spec: 05 section 4.3).
    """
    late = Debt.objects.filter(
        after__kind="session_stop",
        after__after=None,
        after__data__cause=tasks.WITHDRAW,
        after__created_at__lt=Now() - _patience(),
    )
    return Debt.objects.filter(pk__in=late.order_by("pk").values("pk")[:limit]).update(after=None, due_at=Now())


def _patience() -> timedelta:
    return timedelta(milliseconds=settings.DRAIN_GRACE_MS) + STOP_HOLDS


def _lease_is_over(debt: Debt) -> bool:
    """The ending took the lease off the row, so the longest that it can have had counts from the debt on."""
    span_ms = debt.task.board.lease_ms if debt.task else 0
    span_ms = int(debt.data.get("lease_ms") or span_ms)
    return Debt.objects.filter(pk=debt.pk, created_at__lte=Now() - timedelta(milliseconds=span_ms)).exists()


def end_waits(limit: int = LIMIT) -> int:
    """Move on the runs whose `wait` is over. Each due time is one operation, so two sweepers fire it once."""

    def end(found: tuple[int, int, datetime, int]) -> int:
        run_id, visit_id, due_at, space_id = found
        operation, chain = simple.wait_operation(visit_id, due_at), service("flows", space_id)
        flows.advance(run_id, visit_id, flows.Trigger.WAIT_OVER, operation_id=operation, chain=chain)
        return 1

    return each_by_itself(simple.due_waits(limit), end)


def match_events(limit: int = LIMIT) -> int:
    """Bring an event to the step that waits for it, where the process that was to do so has ended."""

    def match(found: tuple[int, int, int, int]) -> int:
        event_id, visit_id, run_id, space_id = found
        operation, chain = f"event:{event_id}:{visit_id}", service("flows", space_id)
        flows.advance(run_id, visit_id, flows.Trigger.EVENT, operation_id=operation, chain=chain)
        return 1

    return each_by_itself(flows.unmatched_events(limit), match)


def forget_processes(limit: int = LIMIT) -> int:
    """Drop the rows of processes that ended or fell silent some time ago."""
    old = Q(stopped_at__lt=Now() - FORGOTTEN) | Q(beat_at__lt=Now() - FORGOTTEN)
    forgotten = list(Process.objects.filter(old).values_list("pk", flat=True)[:limit])
    if forgotten:
        Process.objects.filter(old, pk__in=forgotten).delete()
        live_notices.changed(None, process=True)
    return len(forgotten)


def drop_old_keys(limit: int = LIMIT) -> int:
    """A repeat under an idempotency key is answered for seven days."""
    old = IdempotencyKey.objects.filter(created_at__lt=Now() - KEYS_KEPT).values("pk")[:limit]
    return IdempotencyKey.objects.filter(pk__in=old).delete()[0]


def seconds_to_next(longest: float) -> float:
    """How long until something falls due by the database's clock, at most `longest` seconds."""
    patience_s = _patience().total_seconds()
    with connection.cursor() as cursor:
        cursor.execute(
            """select extract(epoch from least(
                   (select min(lease_until) from boards_task where lease_until > statement_timestamp()),
                   (select min(due_at) from boards_hold
                     where state = 'open' and due_at is not null and due_at > statement_timestamp()),
                   (select min(due_at) from boards_visit where left_at is null and due_at > statement_timestamp()),
                   (select min(next_at) from boards_schedule where enabled and next_at > statement_timestamp()),
                   (select min(due_at) from boards_branch where ended_at is null and due_at > statement_timestamp()),
                   (select min(stop.created_at) + make_interval(secs => %s)
                      from boards_debt stop join boards_debt held on held.after_id = stop.id
                     where stop.kind = 'session_stop' and stop.after_id is null and stop.data ->> 'cause' = %s
                       and stop.created_at + make_interval(secs => %s) > statement_timestamp()),
                   (select min(due_at) from boards_debt
                     where state = 'owed' and payer = 'any' and after_id is null and due_at > statement_timestamp())
               ) - statement_timestamp())""",
            [patience_s, tasks.WITHDRAW, patience_s],
        )
        (seconds,) = cursor.fetchone()
    return longest if seconds is None else max(0.0, min(longest, float(seconds)))

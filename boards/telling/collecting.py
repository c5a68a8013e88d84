"""Who is to be told of what: read from the event log by a cursor, written down once, owed as a debt (spec: 04, 4).

A hold's event is written in the hold's own transaction, so what was asked cannot be lost on the way here; the cursor
moves in the transaction that writes the deliveries, so a sweeper that is killed leaves nothing half read; and it names
what a snapshot shows, so a write that commits late is not missed. Nothing stands in the way of whoever asks. One
sweeper reads at a time; `delivery_once_per_channel` holds whatever happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models.functions import Now

from boards.debts import owing
from boards.locks import Rank, engine_transaction, taking
from boards.models import Board, Debt, Delivery, LogReader, Preference
from boards.queries import catchup
from boards.queries.waiting_rows import LOST_AFTER
from boards.telling.occurrences import DELIVER, EVERYTHING, Near, Occurrence, standing
from boards.telling.times import MINUTE, goes_out_at, rhythm_of
from boards.telling.wants import channels_of, wants

KEPT: Final = timedelta(days=90)  # what was sent stays in sight so long
READER: Final = "deliveries"
NOTED_EVERY: Final = timedelta(minutes=1)

# What changed and may wait on a person now, told of nobody yet: few rows, whatever happened on the boards.
_CHANGED: Final = """
with seen as materialized (
  select e.* from unnest(%(boards)s::bigint[]) b(id) cross join lateral (
    select x.id, x.kind, x.task_id, x.run_id, x.data from boards_event x
     where x.board_id = b.id and x.xid >= pg_snapshot_xmin(%(since)s::pg_snapshot)
       and not pg_visible_in_snapshot(x.xid, %(since)s::pg_snapshot) and x.kind <> all(%(quiet)s)) e),
person as (
  select r.board_id, r.name from boards_rosterentry r where r.kind = 'person' and r.board_id = any(%(boards)s)),
touched as (
  select task_id as pk from seen where task_id is not null
  union select d.dependent_id from seen join boards_taskdep d on d.dependency_id = seen.task_id)
select pg_current_snapshot()::text, statement_timestamp(), exists (select from seen),
  array(select distinct (data->>'hold')::bigint from seen
         where kind in ('hold.opened', 'hold.undone') and data ? 'hold'),
  array(select t.pk from touched join boards_task t on t.pk = touched.pk
         where t.status in ('needs_check', 'errored')
            or t.status = 'pending' and (t.board_id, t.assignee) in (select board_id, name from person)
        union select t.pk from person p join boards_task t on t.board_id = p.board_id and t.assignee = p.name
         where t.status = 'pending' and t.unmet_deps = 0 and t.open_holds = 0
           and t.not_before > %(read_at)s and t.not_before <= statement_timestamp()
        union select t.pk from unnest(%(boards)s::bigint[]) b(id) join boards_task t on t.board_id = b.id
         where t.status = 'in_progress' and t.lease_until > %(read_at)s - %(patience)s::interval
           and t.lease_until <= statement_timestamp() - %(patience)s::interval),
  array(select distinct run_id from seen where run_id is not null),
  array(select d.id from boards_debt d where d.state = 'undeliverable' and d.kind <> 'deliver'
           and not exists (select from boards_delivery v where v.failed_debt_id = d.id and v.at >= d.created_at)),
  array(select id from seen where kind = 'run.notified')
"""


@dataclass(frozen=True, slots=True)
class _Read:
    """What is to be looked at, and where the log was read to; `is_noted`: whether that has to be kept.

    A pass that saw nothing writes nothing: the next one looks at the same empty stretch once more.
    """

    near: Near
    cursor: str
    at: datetime
    is_noted: bool = True


@engine_transaction
def collect() -> int:
    """Write down whom to tell of what came up since the last time; answers how many deliveries were made.

    0 where another process is at it: it finds the same, or the next pass does.
    """
    LogReader.objects.get_or_create(name=READER)
    reader = LogReader.objects.select_for_update(skip_locked=True).filter(pk=READER).first()
    if reader is None:
        return 0
    told = list(_subscribers())
    if not told:
        if reader.cursor:  # whoever turns a channel on is told from that moment, so nothing is read until then
            LogReader.objects.filter(pk=READER).update(cursor="", read_at=None)
        return 0
    read = _read(reader, {one.member.space_id for one in told})
    made = sum(_tell(one, read) for one in told) if read.near else 0
    if read.is_noted or made:
        LogReader.objects.filter(pk=READER).update(cursor=read.cursor, read_at=read.at)
    return made


def _subscribers() -> Iterable[Preference]:
    rows = Preference.objects.select_related("member__user", "member__space").filter(member__user__is_active=True)
    on = rows.exclude(email_since=None, webhook_since=None)
    return on.order_by("pk").prefetch_related("muted_boards")


def _read(reader: LogReader, space_ids: set[int]) -> _Read:
    """What changed since the cursor; everything where there is none, or where it is of another database."""
    since = catchup.snapshot_of(reader.cursor)
    boards = sorted(Board.objects.filter(space__in=space_ids).values_list("pk", flat=True))
    with connection.cursor() as query:
        if since is None or reader.read_at is None:
            query.execute("select pg_current_snapshot()::text, statement_timestamp()")
            fresh, at = query.fetchone()
            return _Read(EVERYTHING, catchup.cursor_at(fresh), at)
        query.execute(
            _CHANGED,
            {
                "boards": boards,
                "since": since,
                "quiet": [*catchup.QUIET],
                "read_at": reader.read_at,
                "patience": f"{LOST_AFTER.total_seconds()} seconds",
            },
        )
        fresh, at, any_seen, *ids = query.fetchone()
    from_the_future = int(since.split(":")[1]) > int(fresh.split(":")[1])  # the database was set back
    stale = at - reader.read_at > NOTED_EVERY
    near = EVERYTHING if from_the_future else Near.of(*ids)
    return _Read(near, catchup.cursor_at(fresh), at, any_seen or stale or from_the_future)


def _tell(told: Preference, read: _Read) -> int:
    """The deliveries of one member, each channel's owed by its debt."""
    found = standing(told.member, read.near)
    muted = {board.pk for board in told.muted_boards.all()}
    wanted = [one for one in found if wants(told, muted, one.row)]
    made = 0
    for channel, since in channels_of(told).items():
        fresh = _fresh(told, channel, [one for one in wanted if one.at >= since])
        if fresh:
            debt_id = _owe(told, channel, read.at, fresh[-1])
            Delivery.objects.bulk_create([_delivery(told, channel, one, debt_id) for one in fresh])
            made += len(fresh)
    return made


def _fresh(told: Preference, channel: str, found: list[Occurrence]) -> list[Occurrence]:
    """Those that the member was not told of on this channel. Nobody else writes deliveries while this runs.

    One that was over before its message went out, and now stands again (an answer was taken back), is told after all.
    """
    if not found:
        return []
    known = Delivery.objects.filter(member=told.member, channel=channel, key__in=[one.key for one in found])
    known.filter(state=Delivery.State.CLOSED).delete()
    keys = set(known.values_list("key", flat=True))
    return [one for one in found if one.key not in keys]


def _owe(told: Preference, channel: str, now: datetime, newest: Occurrence) -> int:
    """The one debt of a member's channel: new, or brought forward; one that failed for good is tried once more.

    It names what came up last, so that operators see what could not be told.
    """
    taking(Rank.DEBT)
    at = goes_out_at(now, rhythm_of(told), _sent_lately(told, channel, now))
    key = f"{DELIVER}:{channel}:{told.member_id}"
    while True:
        owed = owing.owe(
            DELIVER, key, task=newest.task_key, run=newest.run_id, data={"member": told.member_id, "channel": channel}
        )
        debt = Debt.objects.select_for_update(no_key=True).filter(pk=owed.pk).first()
        if debt is not None:  # else it was paid a moment ago
            break
    changes: dict[str, Any] = {"task_id": newest.task_key, "run_id": newest.run_id}
    if debt.state == Debt.State.UNDELIVERABLE:
        changes |= {"state": Debt.State.OWED, "tries": 0, "created_at": Now(), "due_at": at}
    elif _is_untouched(debt):
        changes |= {"due_at": min(debt.due_at, at) if _is_waited_for(debt) else at}
    Debt.objects.filter(pk=debt.pk).update(**changes)
    return debt.pk


def _is_untouched(debt: Debt) -> bool:
    """Whether nobody is at it and no try has failed: its back-off is its own."""
    return debt.tries == 0 and "taken" not in debt.data


def _is_waited_for(debt: Debt) -> bool:
    return Delivery.objects.filter(debt_id=debt.pk, state=Delivery.State.WAITING).exists()


def _sent_lately(told: Preference, channel: str, now: datetime) -> list[datetime]:
    sent = Delivery.objects.filter(member=told.member, channel=channel, sent_at__gt=now - MINUTE)
    return [at for at in sent.order_by("-sent_at").values_list("sent_at", flat=True).distinct() if at]


def _delivery(told: Preference, channel: str, one: Occurrence, debt_id: int) -> Delivery:
    return Delivery(
        member=told.member,
        channel=channel,
        key=one.key,
        kind=one.row.group,
        title=one.row.title[:500],
        hold_id=one.hold_id,
        task_id=one.task_key,
        run_id=one.run_id,
        failed_debt_id=one.debt_id,
        event_id=one.event_id,
        debt_id=debt_id,
        at=one.at,
    )


def forget_deliveries(limit: int = 200) -> int:
    """Drop what was sent, or not needed, long ago; what still waits stays."""
    old = Delivery.objects.filter(created_at__lt=Now() - KEPT).exclude(state=Delivery.State.WAITING)
    return Delivery.objects.filter(pk__in=old.order_by("pk").values("pk")[:limit]).delete()[0]

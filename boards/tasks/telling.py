"""Delivers notices: to a registered function, or to whoever takes one in its own turn (spec: 07 section 3).

A notice is taken by one conditional write before it is told, so a wait and a function never both tell it. Functions
run outside of transactions: what they do is theirs, and the notice is cleared after they return.
"""

from __future__ import annotations

import contextvars
import logging
import uuid
from datetime import timedelta
from typing import Any, Final

from django.db import connection
from django.db.models.functions import Now

from boards.actors import service
from boards.debts import paying
from boards.debts.kinds import Undeliverable, given_up, pays_outside
from boards.debts.paying import Paid
from boards.event_log import Entry, record
from boards.locks import Rank, engine_transaction, taking
from boards.models import Debt, Session, Task
from boards.tasks import rows
from boards.tasks.current import current_claim
from boards.tasks.moving import cancelled_by
from boards.tasks.notices import KIND, Deferred, Handler, Notice, Taken, handler_for

log = logging.getLogger(__name__)

TAKEN_FOR: Final = timedelta(minutes=5)  # a function that is still at it may then be called once more
LOOK_AGAIN: Final = timedelta(seconds=30)  # while it is held back; what ends the wait makes it due at once
BUSY: Final = timedelta(seconds=2)
STALE_S: Final = 90  # a filer without a heartbeat for longer holds nothing back
PARKED_S: Final = 2  # a turn that has waited for longer holds back only what it waits for

# Nobody has it: never taken, or by a function whose time is over, or by a turn that is over.
_FREE: Final = """(d.data->'taken' is null
    or (d.data->'taken'->>'turn' is null and d.due_at <= statement_timestamp())
    or (d.data->'taken'->>'turn' is not null and not exists (
          select from boards_task t
           where t.pk = (d.data->'taken'->>'turn')::bigint and t.grant_no = (d.data->'taken'->>'grant')::bigint
             and t.status = 'in_progress' and t.kept_open_by = ''
             and (t.lease_until is null or t.lease_until > statement_timestamp()))))"""

# The turn that filed the task still runs: its attempt is open since before the filing, its worker shows signs of life,
# and it is not parked (or it is parked on this very task).
_FILER_RUNS: Final = f"""exists (
    select from boards_task p
      join boards_attempt a on a.task_id = p.pk and a.ended_at is null
     where p.pk = (d.data->>'parent')::bigint and p.status = 'in_progress' and p.kept_open_by = ''
       and a.started_at <= c.created_at
       and greatest(p.lease_until - make_interval(secs => p.lease_duration_ms / 1000.0),
                    (select w.beat_at from boards_process w
                      where w.id::text = p.claimed_by->>'drain' and w.stopped_at is null))
           > statement_timestamp() - interval '{STALE_S} seconds'
       and (p.claimed_by->'parked' is null or (p.claimed_by->'parked'->>'on')::bigint = c.pk
            or (p.claimed_by->'parked'->>'at')::timestamptz
               > statement_timestamp() - interval '{PARKED_S} seconds'))"""


@pays_outside(KIND)
def deliver(debt_id: int) -> Paid:
    """Tell one notice to its function, where it is free and its filer's turn is over."""
    paid, session = _deliver(debt_id)
    told = {debt_id}
    while paid is Paid.PAID and (waiting := _waiting(session, told)):  # what waited for this one
        told.add(waiting)
        _deliver(waiting)
    return paid


def _deliver(debt_id: int) -> tuple[Paid, str]:
    taken = _take_for_function(debt_id)
    if taken is None:
        return Paid.NOT_DUE, ""
    session = taken.notice.session_id
    try:
        answer = _tell(taken)
    except Exception as error:
        if not isinstance(error, Undeliverable):
            log.exception("The notice %s was not taken", taken.notice.key)
        _let_go(taken)
        paying.note_failure(debt_id, error)
        return Paid.FAILED, session
    if isinstance(answer, Deferred):
        _put_off(taken, answer)
        return Paid.NOT_DUE, session
    return (Paid.PAID if clear_notice(taken) else Paid.GONE), session


def _waiting(session_id: str, told: set[int]) -> int | None:
    """The next notice of a session that only waited for another one of it."""
    owed = Debt.objects.filter(kind=KIND, state=Debt.State.OWED, after=None, tries=0, due_at__lte=Now() + BUSY)
    fresh = owed.filter(data__session=session_id, data__taken__isnull=True, data__deferred__isnull=True)
    return fresh.exclude(pk__in=told).order_by("due_at", "pk").values_list("pk", flat=True).first()


def _tell(taken: Taken) -> Deferred | None:
    handler = _handler(taken.notice)
    if handler is None:
        raise Undeliverable("No function of this installation hears the endings of this board.")
    # In a context of its own: what the function files is not filed by the worker that happens to pay.
    return contextvars.Context().run(handler.told, taken.notice)


def _handler(notice: Notice) -> Handler | None:
    kind = Session.objects.filter(pk=notice.session_id).values_list("kind", flat=True).first()
    if kind is None:
        raise Undeliverable("The session that filed this is gone.")
    return handler_for(notice.board, kind)


@engine_transaction
def _take_for_function(debt_id: int) -> Taken | None:
    debt = Debt.objects.filter(pk=debt_id, state=Debt.State.OWED, after=None).select_related("task__board").first()
    if debt is None or debt.task is None:
        return None
    kind = Session.objects.filter(pk=debt.data["session"]).values_list("kind", flat=True).first() or ""
    handler = handler_for(debt.task.board.slug, kind)
    one_at_a_time = handler is None or handler.concurrency == "one"
    with connection.cursor() as cursor:
        if one_at_a_time:
            cursor.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", [0x0B0D, debt.data["session"]])
        taking(Rank.DEBT)
        cursor.execute(
            f"""select {_FREE}, {_FILER_RUNS}, d.data->'taken'->>'turn' is not null, exists (
                    select from boards_debt o where o.kind = 'notice' and o.state = 'owed' and o.id <> d.id
                       and o.data->>'session' = d.data->>'session' and o.data->'taken'->>'turn' is null
                       and o.data->'taken' is not null and o.due_at > statement_timestamp())
                  from boards_debt d join boards_task c on c.pk = d.task_id
                 where d.id = %s and d.state = 'owed' for no key update of d""",
            [debt_id],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    free, filer_runs, of_turn, busy = row
    if free and not filer_runs and not (busy and one_at_a_time):
        return _mark(debt, {"by": "function"}, TAKEN_FOR)
    if free or of_turn:  # what another function is at stays its own until its time is over
        Debt.objects.filter(pk=debt_id).update(due_at=Now() + (BUSY if free and not filer_runs else LOOK_AGAIN))
    return None


def _mark(debt: Debt, taker: dict[str, Any], span: timedelta) -> Taken:
    token = uuid.uuid4().hex
    data = debt.data | {"taken": taker | {"token": token}}
    Debt.objects.filter(pk=debt.pk).update(data=data, due_at=Now() + span)
    return Taken(_notice(debt), debt.pk, token)


def _notice(debt: Debt) -> Notice:
    task, told = debt.task, debt.data
    assert task is not None  # a notice is about one, and goes with it
    completed = told["ending"] == "completed"
    mine = Task.objects.filter(pk__in=[] if completed else cancelled_by(task.pk), filer=told["session"])
    return Notice(
        key=debt.unique_key,
        board=task.board.slug,
        task_id=task.public_id,
        title=task.label,
        attempt=told["attempt"],
        ending=told["ending"],
        session_id=told["session"],
        output=task.output if completed else None,
        error=told["error"],
        cancelled=tuple(mine.order_by("pk").values_list("public_id", flat=True)),
    )


def take_owed_notice(task: Task | int) -> Taken | None:
    """Take the notice of a task's ending in the running turn's name; None where none is owed, or somebody has it.

    Until `clear_notice`, or until the turn is over, nobody else tells it; a turn that ends without clearing it owes it
    again. Outside of a turn it is taken for five minutes.
    """
    key = task.pk if isinstance(task, Task) else task
    cascade = Debt.objects.filter(kind=KIND, task=key, after__isnull=False).values_list("after_id", flat=True).first()
    if cascade is not None:
        paying.pay(cascade)
    return _take_owed(key)


@engine_transaction
def _take_owed(key: int) -> Taken | None:
    claim = current_claim()
    taker = {"by": "caller"} if claim is None else {"by": "turn", "turn": claim.task_key, "grant": claim.grant_no}
    taking(Rank.DEBT)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""select d.id from boards_debt d
                 where d.kind = 'notice' and d.task_id = %s and d.state = 'owed' and d.after_id is null
                   and {_FREE} order by d.id limit 1 for no key update""",
            [key],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    debt = Debt.objects.select_related("task__board").get(pk=row[0])
    return _mark(debt, taker, LOOK_AGAIN if claim is not None else TAKEN_FOR)


@engine_transaction
def clear_notice(taken: Taken) -> bool:
    """The notice was told: that one attempt and ending is owed no more. False where somebody else has it by now."""
    taking(Rank.DEBT)
    mine = Debt.objects.filter(pk=taken.debt_id, state=Debt.State.OWED, data__taken__token=taken.token)
    if not mine.select_for_update(no_key=True).values_list("pk", flat=True):
        return False
    paying.pay_after_commit(paying.free(taken.debt_id))  # what waited for it to be heard
    with connection.cursor() as cursor:
        cursor.execute("delete from boards_debt where id = %s", [taken.debt_id])
    return True


def resend_now(session_id: uuid.UUID | str) -> int:
    """Drop the back-off of all that a session is owed, for when it has become free; answers how many were told."""
    owed = Debt.objects.filter(kind=KIND, state=Debt.State.OWED, after=None, data__session=str(session_id))
    free = [debt.pk for debt in owed.order_by("pk") if "taken" not in debt.data]
    Debt.objects.filter(pk__in=free).update(due_at=Now())
    return sum(paying.pay(debt_id) is Paid.PAID for debt_id in free)


@engine_transaction
def _let_go(taken: Taken) -> None:
    _untaken(taken, "'{}'::jsonb", "due_at = due_at")


@engine_transaction
def _put_off(taken: Taken, answer: Deferred) -> None:
    """Send it again later. Being held back is no failed try and starts the notice's age anew."""
    more = "jsonb_build_object('deferred', coalesce((data->>'deferred')::int, 0) + 1)"
    later = "least(300, 2 * power(2, least(coalesce((data->>'deferred')::int, 0), 10))) * (0.75 + random() / 2)"
    _untaken(
        taken,
        more,
        f"created_at = statement_timestamp(), due_at = statement_timestamp() + make_interval(secs => {later})",
        f"Held back: {answer.reason}" if answer.reason else "",
    )


def _untaken(taken: Taken, more: str, sets: str, words: str = "") -> None:
    taking(Rank.DEBT)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""update boards_debt
                   set {sets}, data = (data - 'taken') || {more}, last_error = coalesce(nullif(%s, ''), last_error)
                 where id = %s and state = 'owed' and data->'taken'->>'token' = %s""",
            [words, taken.debt_id, taken.token],
        )


@given_up(KIND, lets_go=True)
@engine_transaction
def note_undeliverable(debt: Debt) -> None:
    """Say on the row that its filer was never told."""
    if debt.task_id is None:
        return
    row, now = rows.lock_one(debt.task_id)
    name = f"notice_undeliverable:{debt.data['attempt']}:{debt.data['ending']}"
    told = {"at": now.isoformat(), "detail": debt.last_error[:2000]}
    if rows.write(row, {"metadata": {**row.metadata, name: told}}):
        chain = service("sweeper", row.board.space_id)
        record(
            Entry(
                "task.metadata_changed",
                chain,
                board_id=row.board_id,
                task_key=row.pk,
                from_status=row.status,
                to_status=row.status,
                data={"keys": [name]},
            )
        )

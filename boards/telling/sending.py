"""Pays the debt `deliver`: one message with all that waits for it, outside of any transaction (spec: 04, 4; 07, 2).

The debt is taken by one conditional write before anything is sent, and settled by another, so of two payers one sends.
A process that is killed in between leaves it taken until `TAKEN_FOR` is over; then it is sent again, because nobody
can know whether the receiver had it. What is over by then, or was never wanted, is left out.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Greatest, Now

from boards.debts import paying
from boards.debts.kinds import pays_outside
from boards.debts.paying import Paid
from boards.locks import Rank, engine_transaction, taking
from boards.models import Channel, Debt, Delivery, Preference
from boards.outbound import NotNow, Refused, send_json
from boards.telling import links
from boards.telling.letters import Letter, letter
from boards.telling.mailing import send_mail
from boards.telling.occurrences import DELIVER, Near, Occurrence, standing
from boards.telling.times import goes_out_at, quiet_until, rhythm_of
from boards.telling.wants import channels_of, wants

log = logging.getLogger(__name__)

TAKEN_FOR: Final = timedelta(minutes=5)  # longer than any receiver is waited for
Waiting = Sequence[Delivery]


@dataclass(frozen=True, slots=True)
class Taken:
    """A debt that this process sends, with what waited for it."""

    debt_id: int
    token: str
    told: Preference
    channel: str
    deliveries: tuple[Delivery, ...]


class Carriers:
    """Threads that send, in a process that must not wait for receivers; without any, whoever pays sends."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def start(self, threads: int = 4) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="carrier")

    def stop(self) -> None:
        """Let those that are under way finish; what had not begun is taken up by another process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def carry(self, taken: Taken) -> Paid:
        if self._pool is None:
            return _carry(taken)
        self._pool.submit(_carry_in_thread, taken)
        return Paid.NOT_DUE


carriers: Final = Carriers()


@pays_outside(DELIVER)
def deliver(debt_id: int) -> Paid:
    """Send what waits for one member on one channel, where it may go out now."""
    taken = _take(debt_id)
    return Paid.NOT_DUE if taken is None else carriers.carry(taken)


def _carry_in_thread(taken: Taken) -> None:
    try:
        _carry(taken)
    except Exception:
        log.exception("A message could not be sent (debt %s)", taken.debt_id)
    finally:
        connection.close()


def _carry(taken: Taken) -> Paid:
    try:
        found = _standing(taken)
        sent = [one for one in taken.deliveries if one.key in found]
        if sent:
            _send(taken, _letter(taken, sent, found))
    except Exception as error:
        if not isinstance(error, Refused | NotNow):
            log.exception("A message could not be sent (debt %s)", taken.debt_id)
        return _failed(taken, error)
    return _settle(taken, sent)


@engine_transaction
def _take(debt_id: int) -> Taken | None:
    """The debt, for this process alone; None where it is not due, is being sent, or the member's hours are quiet."""
    taking(Rank.DEBT)
    owed = Debt.objects.filter(pk=debt_id, state=Debt.State.OWED, due_at__lte=Now())
    debt = owed.select_for_update(no_key=True, of=("self",)).annotate(now=Now()).first()
    if debt is None:
        return None
    token, channel = uuid.uuid4().hex, debt.data["channel"]
    told = Preference.objects.select_related("member__user", "member__space").filter(member=debt.data["member"]).first()
    if told is None or not told.member.user.is_active or channel not in channels_of(told):
        _waiting(debt_id).update(state=Delivery.State.CLOSED)  # it was turned off meanwhile
        debt.delete()
        return None
    if ends := quiet_until(debt.now, rhythm_of(told)):
        Debt.objects.filter(pk=debt_id).update(due_at=ends)
        return None
    # Its age counts from the first try: a digest may have waited for a day before it.
    first = {"created_at": Now()} if debt.tries == 0 else {}
    Debt.objects.filter(pk=debt_id).update(data=debt.data | {"taken": token}, due_at=Now() + TAKEN_FOR, **first)
    return Taken(debt_id, token, told, channel, tuple(_waiting(debt_id).order_by("at", "pk")))


def _waiting(debt_id: int) -> QuerySet[Delivery]:
    return Delivery.objects.filter(debt_id=debt_id, state=Delivery.State.WAITING)


def _standing(taken: Taken) -> dict[str, Occurrence]:
    """What of it still waits on the member and is still wanted, by key."""
    waiting = taken.deliveries
    near = Near.of(
        {one.hold_id for one in waiting if one.hold_id},
        {one.task_id for one in waiting if one.task_id and not one.hold_id and not one.failed_debt_id},
        {one.run_id for one in waiting if one.run_id and not (one.hold_id or one.failed_debt_id or one.event_id)},
        {one.failed_debt_id for one in waiting if one.failed_debt_id},
        {one.event_id for one in waiting if one.event_id},
    )
    muted = set(taken.told.muted_boards.values_list("pk", flat=True))
    return {one.key: one for one in standing(taken.told.member, near) if wants(taken.told, muted, one.row)}


def _letter(taken: Taken, sent: Waiting, found: dict[str, Occurrence]) -> Letter:
    names = "|".join([taken.channel, *(str(one.pk) for one in sent)])
    ident = f"told.{hashlib.sha256(names.encode()).hexdigest()[:32]}"
    rows = [(found[one.key].row, links.path_of(one)) for one in sent]
    return letter(ident, taken.told, rows, settings.SITE_URL.rstrip("/"), links.common_paths())


def _send(taken: Taken, what: Letter) -> None:
    user = taken.told.member.user
    if taken.channel == Channel.EMAIL:
        send_mail(what, user.display, user.email)
    else:
        send_json(taken.told.webhook_url, {"text": what.slack}, what.id, taken.told.webhook_secret)


def _failed(taken: Taken, error: Exception) -> Paid:
    """Let it go again, with the back-off of every debt, or the wait that the receiver asked for if that is longer."""
    if not _let_go(taken):
        return Paid.GONE
    name = f"{Channel(taken.channel).label} to {taken.told.member.user.display}"
    words = type(error)(f"{name}: {error}") if isinstance(error, Refused | NotNow) else error
    paying.note_failure(taken.debt_id, words)
    after = getattr(error, "after", None)
    if after:
        owed = Debt.objects.filter(pk=taken.debt_id, state=Debt.State.OWED)
        owed.update(due_at=Greatest("due_at", Now() + timedelta(seconds=after)))
    return Paid.FAILED


@engine_transaction
def _let_go(taken: Taken) -> bool:
    taking(Rank.DEBT)
    mine = Debt.objects.select_for_update(no_key=True).filter(pk=taken.debt_id, data__taken=taken.token).first()
    if mine is None:
        return False
    data = {name: value for name, value in mine.data.items() if name != "taken"}
    Debt.objects.filter(pk=mine.pk).update(data=data)
    return True


@engine_transaction
def _settle(taken: Taken, sent: Waiting) -> Paid:
    """Mark what went out and what was not needed; the debt is paid unless more has come up meanwhile."""
    taking(Rank.DEBT)
    debt = Debt.objects.select_for_update(no_key=True).filter(pk=taken.debt_id).annotate(now=Now()).first()
    ids = {one.pk for one in sent}
    mine = Delivery.objects.filter(pk__in=[one.pk for one in taken.deliveries], state=Delivery.State.WAITING)
    mine.filter(pk__in=ids).update(state=Delivery.State.SENT, sent_at=Now())
    mine.exclude(pk__in=ids).update(state=Delivery.State.CLOSED)
    if debt is None or debt.data.get("taken") != taken.token:
        return Paid.GONE
    if not _waiting(debt.pk).exists():
        Debt.objects.filter(pk=debt.pk).delete()
        return Paid.PAID
    data = {name: value for name, value in debt.data.items() if name != "taken"}
    at = goes_out_at(debt.now, rhythm_of(taken.told), [debt.now])
    Debt.objects.filter(pk=debt.pk).update(data=data, tries=0, last_error="", created_at=Now(), due_at=at)
    return Paid.PAID

"""Events with a key: kept from the moment they come, and taken by the step that waits for them (spec: 05 section 7).

Whoever keeps an event and whoever begins to wait for its key hold the key's lock, so one of the two sees the other.
An event is taken under the run's lock by one guarded update, so each is taken once, and a wait ends once: by its event
or by its time, whichever was first.
"""

from __future__ import annotations

import zlib
from datetime import timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from boards.actors import Chain
from boards.debts import owing
from boards.errors import InvalidInput
from boards.event_log import Entry, record
from boards.locks import Rank, taking
from boards.models import EventWait, Flow, FlowRun, KeptEvent, Visit, Webhook
from boards.states import Phase, RunStatus
from boards.stored_text import clean_text

EVENT: Final = "event"  # the trigger by which a wait ends with an event
KEPT: Final = timedelta(days=7)
MAX_KEY: Final = 200
_TOLD: Final = 20
_LOCKS: Final = 0x0B0E


def checked_key(key: str) -> str:
    """The key as it is stored and compared. Raises InvalidInput."""
    told = clean_text(" ".join(key.split()))
    if not 1 <= len(told) <= MAX_KEY:
        raise InvalidInput(f"The key of an event has 1 to {MAX_KEY} characters.", field="key")
    return told


def keep(chain: Chain, flow: Flow, key: str, payload: Any, webhook: Webhook | None = None) -> KeptEvent:
    """Keep an event, and let the steps that wait for its key know; inside the caller's engine transaction."""
    key = checked_key(key)
    _lock(flow.pk, key)
    event = KeptEvent.objects.create(flow=flow, key=key, payload=payload, webhook=webhook)
    record(Entry("event.received", chain, board_id=flow.board_id, data={"flow": flow.key, "key": key}))
    untaken = KeptEvent.objects.filter(flow=flow, key=key, taken_at=None, received_at__gt=Now() - KEPT).count()
    timely = Q(visit__due_at=None) | Q(visit__due_at__gt=Now())
    # As many as there are events for: the others go on waiting.
    waits = _open_waits().filter(timely, flow=flow, key=key).order_by("pk")[: min(untaken, _TOLD)]
    for visit_id, run_id in waits.values_list("visit", "visit__run"):
        unique_key = f"flow_advance:event:{event.pk}:{visit_id}"
        owing.owe("flow_advance", unique_key, run=run_id, data={"visit": visit_id, "trigger": EVENT})
    return event


def wait_for(run: FlowRun, visit: Visit, key: str) -> bool:
    """Let a stay wait for an event with this key, under its run's lock; answers whether there is one already."""
    key = checked_key(key)
    _lock(run.flow_id, key)
    EventWait.objects.create(visit=visit, flow_id=run.flow_id, key=key)
    return _untaken().filter(flow=run.flow_id, key=key).exists()


def take(visit: Visit) -> KeptEvent | None:
    """The oldest event that ends this stay, taken by it; None where there is none. Under its run's lock."""
    wait = EventWait.objects.filter(visit=visit).first()
    if wait is None:
        return None
    timely = Q() if visit.due_at is None else Q(received_at__lte=max(visit.due_at, visit.entered_at))
    while event := _untaken().filter(timely, flow=wait.flow_id, key=wait.key).order_by("pk").first():
        # Another run may take it at this moment: then this waits for its commit, and looks for the next one.
        if KeptEvent.objects.filter(pk=event.pk, taken_at=None).update(taken_by=visit, taken_at=Now()):
            return event
    return None


def unmatched(limit: int) -> list[tuple[int, int, int, int]]:
    """(event, visit, run, space) of events that are kept although a step waits for them: what a process left that died.

    Each with the stay that has waited longest.
    """
    received = OuterRef("received_at")
    timely = Q(visit__due_at=None) | Q(visit__due_at__gte=received) | Q(visit__entered_at__gte=received)
    waits = _open_waits().filter(timely, flow=OuterRef("flow"), key=OuterRef("key"))
    found = []
    for event in _untaken().filter(Exists(waits)).order_by("pk")[:limit]:
        matches = Q(visit__due_at=None) | Q(visit__due_at__gte=event.received_at)
        matches |= Q(visit__entered_at__gte=event.received_at)
        wait = _open_waits().filter(matches, flow=event.flow_id, key=event.key).order_by("pk")
        row = wait.values_list("visit", "visit__run", "flow__space").first()
        if row is not None:
            found.append((event.pk, *row))
    return found


def forget(limit: int) -> int:
    """Drop events that came more than seven days ago, whether they were taken or not."""
    old = KeptEvent.objects.filter(received_at__lt=Now() - KEPT).order_by("received_at").values("pk")[:limit]
    return KeptEvent.objects.filter(pk__in=old).delete()[0]


def _untaken() -> QuerySet[KeptEvent]:
    return KeptEvent.objects.filter(taken_at=None, received_at__gt=Now() - KEPT)


def _open_waits() -> QuerySet[EventWait]:
    return EventWait.objects.filter(
        visit__left_at=None,
        visit__output__isnull=True,
        visit__phase=Phase.WAITING,
        visit__run__status=RunStatus.ACTIVE,
        visit__run__archived_at=None,
        visit__run__current_visit=F("visit"),
    )


def _lock(flow_id: int, key: str) -> None:
    taking(Rank.BOARD_ADVISORY)  # of the same rank as a board's: nobody holds both
    number = zlib.crc32(f"{flow_id}:{key}".encode()) - 2**31
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(%s, %s)", [_LOCKS, number])

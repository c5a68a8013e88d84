"""Rows of *Needs you* that block nothing and only want to be read: shown as a dot beside the count (spec: 04, 3.6).

Reads only. A member who has seen one is not shown it again, except for a silent run, which leaves when it speaks.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.db.models import CharField, Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat, Now

from boards.debts.operating import SEEN_ONLY
from boards.models import Debt, Event, Member, Role, Seen, Session, Task, TranscriptItem
from boards.queries.partitions import own_rows
from boards.queries.waiting_sources import when
from boards.states import Status

SILENT_FOR: Final = timedelta(minutes=5)
# Debts that keep nothing from going on.
ONLY_READ: Final = frozenset({"notice", *SEEN_ONLY})
SHOWN_FOR: Final = timedelta(days=7)  # what nobody has looked at for so long is in the log


def arms(member: Member) -> list[QuerySet[Any]]:
    """What the dot stands for, of this member."""
    return [
        *(rows.filter(mine) for rows, mine in task_arms(member).values()),
        unheard_notices(member),
        told(member),
    ]


def task_arms(member: Member) -> dict[str, tuple[QuerySet[Task], Q]]:
    """Name -> (what is there to see in the space, the condition under which it is this member's)."""
    me = member.user_id
    mine = (
        when(member.role == Role.OPERATOR)
        | Q(filer__user_id=me, filer__kind__in=[Session.Kind.MEMBER, Session.Kind.KEY])
        | Q(visit__run__started_by_id=me)
    )
    tasks = Task.objects.filter(own_rows(member, "partition"), board__space_id=member.space_id)
    withdrawn = tasks.filter(withdrawn__isnull=False, status=Status.CANCELLED, completed_at__gt=Now() - SHOWN_FOR)
    return {
        "withdrawn": (withdrawn.exclude(_seen(member, "withdrawn-", "pk")), mine),
        "silent": (silent(tasks), mine),
    }


def silent(tasks: QuerySet[Task]) -> QuerySet[Task]:
    """Tasks whose worker holds its lease and has said nothing for five minutes: no line, no report."""
    spoke = TranscriptItem.objects.filter(task=OuterRef("pk"), at__gt=Now() - SILENT_FOR)
    working = Q(status=Status.IN_PROGRESS, lease_until__gt=Now(), kept_open_by="", open_holds=0)
    return tasks.filter(working, updated_at__lt=Now() - SILENT_FOR).exclude(Exists(spoke))


def unheard_notices(member: Member) -> QuerySet[Debt]:
    """Notices that could not be delivered, and what could not be recorded; operators only, who retry or drop them."""
    lost = Debt.objects.filter(
        kind__in=ONLY_READ, state=Debt.State.UNDELIVERABLE, task__board__space_id=member.space_id
    )
    return lost.order_by() if member.role == Role.OPERATOR else Debt.objects.none()


def told(member: Member) -> QuerySet[Event]:
    """What flows told this member lately; nobody else is shown it. Each telling is an event, and a row, of its own."""
    lately = Event.objects.filter(space_id=member.space_id, kind="run.notified", at__gt=Now() - SHOWN_FOR)
    mine = lately.filter(run__isnull=False, data__users__contains=[member.user_id])
    return mine.exclude(_seen(member, "told-", "pk")).order_by()


def _seen(member: Member, prefix: str, field: str) -> Exists:
    key = Concat(Value(prefix), Cast(OuterRef(field), CharField()))
    return Exists(Seen.objects.filter(member=member.pk, key=key))

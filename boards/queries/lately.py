"""What stands beside *Needs you*: what was answered last, and what is being worked (spec: 04 section 3.7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import BooleanField, Count, ExpressionWrapper, Q, QuerySet, Subquery, Window
from django.db.models.functions import Left, Now

from boards.models import Hold, Member, Task
from boards.queries.asks import answer_words, heading_of
from boards.queries.partitions import own_rows
from boards.queries.statements import made_once
from boards.queries.task_refs import label_of
from boards.states import HoldState, Status


@dataclass(frozen=True, slots=True)
class Answered:
    """`words`: who and what ("You approved"); `about`: what was asked."""

    words: str
    about: str
    icon: str
    at: datetime | None
    undo_id: int = 0  # the hold, where the reader may still take the answer back


@dataclass(frozen=True, slots=True)
class Working:
    label: str
    assignee: str
    note: str
    board_slug: str
    public_id: str


@dataclass(frozen=True, slots=True)
class Lately:
    """`my_last`: when this member last answered anything, or None."""

    answered: tuple[Answered, ...]
    working: tuple[Working, ...]
    working_count: int
    my_last: datetime | None


def lately(member: Member, limit: int = 4) -> Lately:
    """Two queries, however much there is."""
    seen = Q(task=None) | own_rows(member, "task__partition")
    answered = Hold.objects.filter(seen, board__space_id=member.space_id, state=HoldState.ANSWERED)
    settling = ExpressionWrapper(Q(settles_at__isnull=False, settles_at__gt=Now()), output_field=BooleanField())
    mine = answered.filter(answered_by_id=member.user_id).order_by("-answered_at").values("answered_at")[:1]
    latest = list(
        answered.defer("draft", "context", "schema")
        .annotate(is_settling=settling, my_last=Subquery(mine))
        .order_by("-answered_at", "-pk")[:limit]
    )
    rows = _working(member.user_id, member.space_id, limit).tuples()
    shown = tuple(Working(label_of(title, goal), who, note, slug, key) for title, goal, who, note, slug, key, _ in rows)
    my_last = getattr(latest[0], "my_last", None) if latest else None
    return Lately(tuple(_answered(hold, member) for hold in latest), shown, rows[0][-1] if rows else 0, my_last)


@made_once
def _working(user_id: int, space_id: int, limit: int) -> QuerySet[Any, Any]:
    own = own_rows(Member(user_id=user_id))
    working = Task.objects.filter(own, board__space_id=space_id, status=Status.IN_PROGRESS, kept_open_by="")
    at_work = working.exclude(lease_until__lte=Now())  # one that lost its worker stands in the list itself
    return (
        at_work.annotate(goal_head=Left("goal", 300), note_head=Left("status_note", 120), all=Window(Count("*")))
        .order_by("-updated_at")
        .values_list("title", "goal_head", "assignee", "note_head", "board__slug", "public_id", "all")[:limit]
    )


def _answered(hold: Hold, member: Member) -> Answered:
    choice = str((hold.answer or {}).get("choice", ""))
    icon = "x" if choice in {"reject", "discard", "no"} else "ask" if hold.kind == "question" else "ok"
    mine = getattr(hold, "is_settling", False) and hold.answered_by_id == member.user_id
    about = f"“{heading_of(hold)[:120]}”"
    return Answered(answer_words(hold, member.user_id), about, icon, hold.answered_at, hold.pk if mine else 0)

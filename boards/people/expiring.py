"""Holds that end without an answer: past their due time, or with the visit that asked (spec: 04 sections 2.6 and 2.8).

One clock, not who comes first: whoever finds the due time past performs this same expiry. Silence is never a yes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from boards import errors
from boards.actors import Chain
from boards.each import each_by_itself, many_at_once
from boards.event_log import Entry, record
from boards.lines import lines, literal
from boards.locks import Rank, engine_transaction, taking
from boards.models import Hold, Task
from boards.people import closing, decisions
from boards.people.closing import Subject
from boards.states import HoldState
from boards.stored_text import clean_json_text, clean_text
from boards.tasks import rows

TOGETHER: Final = 50  # questions of as many tasks that one transaction ends


def expire_due(limit: int = 200) -> int:
    """Perform the expiry of every hold whose due time has passed; answers how many. Two sweepers do each once.

    One that cannot expire keeps no other from it: what it raises is raised once all the others are done.
    """
    due = (
        Hold.objects.filter(state=HoldState.OPEN, due_at__lte=Now())
        .exclude(kind__in=["question", "confirm"], default="")
        .filter(task__withdrawn__isnull=True)  # its debt discards it; until then it must not fill the page
        .order_by("due_at", "pk")
    )
    of_tasks: dict[int, int] = {}  # the first of each task; with several the others wait for it
    others = []
    for hold_id, task_key in due.values_list("pk", "task_id")[:limit]:
        if task_key is None or task_key in of_tasks:
            others.append(hold_id)
        else:
            of_tasks[task_key] = hold_id
    work = [
        lambda: many_at_once(list(of_tasks.items()), TOGETHER, _expire_of_tasks, lambda one: _expire_one(one[1])),
        lambda: each_by_itself(others, _expire_one),
    ]
    return each_by_itself(work, lambda part: part())


@engine_transaction
def _expire_of_tasks(asked: Sequence[tuple[int, int]]) -> int:
    """End the holds of as many tasks at once: (task key, hold id)."""
    locked = rows.lock(task_key for task_key, _ in asked)
    taking(Rank.HOLD)
    due = Hold.objects.filter(pk__in=[hold_id for _, hold_id in asked], state=HoldState.OPEN, due_at__lte=Now())
    holds = due.select_for_update(no_key=True, of=("self",)).select_related("board").order_by("pk")
    closings = [
        closing.Closing(closing.sweeper_of(hold), hold, task)
        for hold in holds
        if (task := locked.get(hold.task_id or 0)) is not None and not task.withdrawn
    ]
    if closings:
        _write([one.hold for one in closings])
        closing.closed_of_tasks(closings, "hold.expired")
    return len(closings)


@engine_transaction
def _expire_one(hold_id: int) -> bool:
    hold, subject = closing.lock(hold_id)
    if isinstance(subject, Task) and subject.withdrawn:
        return False  # its debt discards it, with the reason in words
    still_due = Hold.objects.filter(pk=hold_id, state=HoldState.OPEN, due_at__lte=Now()).exists()
    if still_due:
        expire(hold, subject)
    return still_due


@engine_transaction
def expire(hold: Hold, subject: Subject) -> Hold:
    """End a locked hold as its row had said that it would end."""
    _write([hold])
    closing.closed(closing.sweeper_of(hold), hold, subject, "hold.expired")
    return hold


def _write(holds: Sequence[Hold]) -> None:
    """The guarded update of locked holds, whose rows in memory follow it."""
    answers = {hold.pk: decisions.expiry_answer(hold) for hold in holds}
    source, params = lines([(pk, clean_json_text(answer) if answer else None) for pk, answer in answers.items()], _ENDS)
    with connection.cursor() as cursor:
        cursor.execute(_END.format(source), [BY, REASON, *params, literal(list(answers))])
        landed = dict(cursor.fetchall())
    for hold in holds:
        if hold.pk not in landed:
            raise errors.AlreadyAnswered("It was answered meanwhile.", hold=hold)
        hold.state, hold.answer, hold.answered_at = HoldState.EXPIRED, answers[hold.pk], landed[hold.pk]
        hold.answered_by_name, hold.closed_reason, hold.revision = BY, REASON, hold.revision + 1


BY: Final = "the due time"
REASON: Final = "Nobody answered in time."
_ENDS: Final = {"hold": "bigint", "answer": "jsonb"}
_END: Final = """
    update boards_hold h
       set state = 'expired', answer = v.answer, answered_by_name = %s, answered_at = statement_timestamp(),
           closed_reason = %s, revision = h.revision + 1
      from {} where h.id = v.hold and h.id = any(%s::bigint[]) and h.state = 'open' returning h.id, h.answered_at"""


@engine_transaction
def discard_visit_holds(chain: Chain, visit_id: int, reason: str, *, branches: Collection[int] | None = None) -> int:
    """Close what a visit still asks, or only these branches of it, with the reason; the caller holds the run's lock."""
    taking(Rank.HOLD)
    reason = clean_text(reason)
    open_holds = Hold.objects.filter(visit=visit_id, state=HoldState.OPEN)
    if branches is not None:
        open_holds = open_holds.filter(branch__in=branches)
    told = open_holds.only("board", "visit", "prompt")  # most visits ask nothing when they are left
    closed = list(told.select_for_update().order_by("pk"))
    if not closed:
        return 0
    open_holds.update(
        state=HoldState.DISCARDED,
        answered_at=Now(),
        answered_by_name=chain.name,
        closed_reason=reason,
        revision=F("revision") + 1,
    )
    for hold in closed:
        record(
            Entry(
                "hold.discarded",
                chain,
                board_id=hold.board_id,
                run_id=hold.visit.run_id if hold.visit else None,
                data={"hold": hold.pk, "prompt": hold.prompt[:500], "text": reason},
            )
        )
    return len(closed)

"""The claim takes what the one definition says, and nothing else, whatever a row looks like (spec: 02, 1.1-1.3)."""

from __future__ import annotations

import itertools
from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Now

from boards import tasks
from boards.actors import Chain
from boards.models import Attempt, Board, Task
from boards.states import Status
from boards.tasks import Filing, Wanted, decisions
from tests import cast

PAST, FUTURE = Now() - timedelta(hours=1), Now() + timedelta(hours=1)
# What a claim looks at: how the row stands, what is open, and its back-off.
STANDS = {
    "ready": {"status": Status.PENDING},
    "held": {"status": Status.HELD},
    "leased": {"status": Status.IN_PROGRESS, "lease_until": FUTURE},
    "lapsed": {"status": Status.IN_PROGRESS, "lease_until": PAST},
    "kept open": {"status": Status.IN_PROGRESS},
    "suspended": {"status": Status.IN_PROGRESS, "kept_open_by": "suspended"},
    "answered": {"status": Status.IN_PROGRESS, "kept_open_by": "suspended", "resume_ready_at": PAST},
    "settling": {"status": Status.IN_PROGRESS, "kept_open_by": "suspended", "resume_ready_at": FUTURE},
    "handed in": {"status": Status.NEEDS_CHECK},
    "done": {"status": Status.COMPLETED, "completed_at": PAST},
    "stuck": {"status": Status.ERRORED, "completed_at": PAST},
    "skipped": {"status": Status.CANCELLED, "completed_at": PAST},
}
WAITS = ({}, {"unmet_deps": 1}, {"open_holds": 1})
BACK_OFF = (None, PAST, FUTURE)  # of a row that is not at work


def test_the_claim_takes_what_the_one_definition_says(board: Board, anna: Chain) -> None:
    cases = [
        (name, wait, back_off)
        for name, wait, back_off in itertools.product(STANDS, WAITS, BACK_OFF)
        if back_off is None or STANDS[name]["status"] != Status.IN_PROGRESS
    ]
    filings = [Filing(f"Case {n}", assignee=cast.WRITER) for n in range(len(cases))]
    for task, (name, wait, back_off) in zip(tasks.file_tasks(anna, board, filings), cases, strict=True):
        at_work = STANDS[name]["status"] == Status.IN_PROGRESS
        fields = {"title": name, "not_before": back_off, "attempts": int(at_work), **STANDS[name], **wait}
        Task.objects.filter(pk=task.pk).update(**fields)
        if at_work:
            Attempt.objects.create(task=task, number=1, assignee=cast.WRITER)
    rows = list(Task.objects.annotate(db_now=Now()))
    wanted = {row.pk for row in rows if decisions.is_claimable(row, row.db_now)}
    got = tasks.claim([Wanted(board.pk, {cast.WRITER: 500})], limit=500, lease_ms=60_000, claimed_by=cast.HERE)
    assert {one.task.pk for one in got} == wanted
    names = {row.pk: row.title for row in rows}
    assert {names[key] for key in wanted} == {"ready", "lapsed", "answered"}
    assert [names[one.task.pk] for one in got] == ["answered", "lapsed", "ready", "ready"]  # the arms in their order


def test_what_was_lost_too_often_is_settled_and_uses_up_nothing_of_the_batch(board: Board, anna: Chain) -> None:
    made = tasks.file_tasks(anna, board, [Filing(f"Task {n}", assignee=cast.WRITER) for n in range(3)])
    first = cast.claimed(board)
    Task.objects.filter(pk=first.task.pk).update(lease_until=PAST, abandonments=F("abandonments") + 3)
    got = tasks.claim([Wanted(board.pk, {cast.WRITER: 2})], limit=2, claimed_by=cast.HERE)
    assert [one.task.pk for one in got] == [made[1].pk, made[2].pk]
    row = cast.fresh(made[0])
    assert (row.status, row.abandonments, row.failures) == (Status.ERRORED, 3, 0)
    assert made[0].public_id in row.error

"""A grant once it stands: renewals, whether a ticket still owns its row, and the link to the run that works it.

Hot statements address rows by key; the fence is a filter, never an index condition (spec: 02 sections 3-4).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from boards.actors import Chain
from boards.errors import TaskNotFound
from boards.event_log import Entry, record_all
from boards.locks import Rank, engine_transaction, taking
from boards.models import Task
from boards.states import Status
from boards.stored_text import clean_json_text
from boards.tasks import decisions
from boards.tasks.types import Reason, Recorded, RunLink, TaskWriteOutcome, Ticket


def renew_leases(tickets: Sequence[Ticket]) -> dict[int, datetime | None]:
    """Move each lease by its committed span, in one statement; None where the ticket no longer owns its row.

    Publishes no change and takes no part in `revision`. Rows are locked in their order, as everywhere.
    """
    if not tickets:
        return {}
    keys = [t.task_key for t in tickets]
    with connection.cursor() as cursor:
        cursor.execute(
            """with locked as (
                   select pk from boards_task where pk = any(%s) order by pk for no key update
               )
               update boards_task t
                  set lease_until = statement_timestamp() + make_interval(secs => t.lease_duration_ms / 1000.0)
                 from locked, unnest(%s::bigint[], %s::bigint[], %s::int[], %s::uuid[])
                        as k(pk, grant_no, attempt, incarnation)
                where t.pk = locked.pk and t.pk = k.pk and t.grant_no = k.grant_no and t.attempts = k.attempt
                  and t.incarnation_id = k.incarnation and t.status = 'in_progress'
                  and t.lease_until > statement_timestamp()
            returning t.pk, t.lease_until""",
            [
                keys,
                keys,
                [t.grant_no for t in tickets],
                [t.attempt for t in tickets],
                [t.incarnation_id for t in tickets],
            ],
        )
        renewed = dict(cursor.fetchall())
    return {ticket.task_key: renewed.get(ticket.task_key) for ticket in tickets}


def owns(ticket: Ticket, *, locks: bool = False) -> bool:
    """Whether the ticket is of the current grant of a row that is still being worked.

    `locks`: in the running engine transaction, so that it stays so until that commits.
    """
    if locks:
        taking(Rank.TASK)
    found = (
        Task.objects.filter(
            pk=ticket.task_key,
            grant_no=ticket.grant_no,
            attempts=ticket.attempt,
            incarnation_id=ticket.incarnation_id,
            status=Status.IN_PROGRESS,
        )
        .filter(Q(lease_until__isnull=True) | Q(lease_until__gt=Now()))
        .exclude(kept_open_by=decisions.FILED)  # it was handed in
    )
    return bool(found.select_for_update(no_key=True).values_list("pk")) if locks else found.exists()


def link_run(chain: Chain, ticket: Ticket, session_id: uuid.UUID | None, request_id: str) -> TaskWriteOutcome:
    """Name the run that works this grant, where none is named yet: a hand-over delivered twice starts once. Declines
    with `terminal`, `not-my-task` or `lost-claim`; raises TaskNotFound.
    """
    return link_runs([RunLink(chain, ticket, session_id, request_id)])[0]


@engine_transaction
def link_runs(links: Sequence[RunLink]) -> list[TaskWriteOutcome]:
    """`link_run` for many grants in one transaction; the answers stand in the order of the links."""
    taking(Rank.TASK)
    landed = _write_links(links)
    landed_links = [link for link in links if link.ticket.task_key in landed]
    _note_sessions(landed_links)
    record_all(_linked_event(link) for link in landed_links)
    return [
        TaskWriteOutcome(Recorded.RECORDED, Status.IN_PROGRESS)
        if link.ticket.task_key in landed
        else _refuse_link(link.ticket)
        for link in links
    ]


def _linked_event(link: RunLink) -> Entry:
    ticket = link.ticket
    return Entry(
        "task.run_linked",
        link.chain,
        board_id=ticket.board_id,
        task_key=ticket.task_key,
        attempt=ticket.attempt,
    )


def _write_links(links: Sequence[RunLink]) -> set[int]:
    """The guarded update, rows locked in their order; answers the keys of the tasks that it landed on."""
    tickets = [link.ticket for link in links]
    keys = [ticket.task_key for ticket in tickets]
    with connection.cursor() as cursor:
        cursor.execute(
            """with locked as (
                   select pk from boards_task where pk = any(%s) order by pk for no key update
               )
               update boards_task t
                  set run = v.run::jsonb, revision = t.revision + 1, updated_at = statement_timestamp()
                 from locked, unnest(%s::bigint[], %s::bigint[], %s::int[], %s::uuid[], %s::text[])
                        as v(pk, grant_no, attempt, incarnation, run)
                where t.pk = locked.pk and t.pk = v.pk and t.grant_no = v.grant_no and t.attempts = v.attempt
                  and t.incarnation_id = v.incarnation and t.status = 'in_progress' and t.run is null
                  and (t.lease_until is null or t.lease_until > statement_timestamp())
            returning t.pk""",
            [
                keys,
                keys,
                [ticket.grant_no for ticket in tickets],
                [ticket.attempt for ticket in tickets],
                [ticket.incarnation_id for ticket in tickets],
                [clean_json_text(_run(link)) for link in links],
            ],
        )
        return {row[0] for row in cursor.fetchall()}


def _refuse_link(ticket: Ticket) -> TaskWriteOutcome:
    task = Task.objects.filter(pk=ticket.task_key).annotate(db_now=Now()).first()
    if task is None:
        raise TaskNotFound
    if refusal := decisions.lost(ticket, task, task.db_now):
        return refusal
    return TaskWriteOutcome(Recorded.DECLINED, task.status, Reason.DISALLOWED, "This run was started already.")


def _run(link: RunLink) -> dict[str, Any]:
    session = str(link.session_id or "")
    return {"session_id": session, "request_id": link.request_id, "attempt": link.ticket.attempt}


def _note_sessions(links: Sequence[RunLink]) -> None:
    if not links:
        return
    taking(Rank.ATTEMPT)
    with connection.cursor() as cursor:
        cursor.execute(
            """update boards_attempt a set session_id = v.session
                 from unnest(%s::bigint[], %s::uuid[]) as v(pk, session) where a.id = v.pk""",
            [[link.ticket.attempt_key for link in links], [link.session_id for link in links]],
        )

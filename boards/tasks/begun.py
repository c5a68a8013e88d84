"""What a claim leaves beside the rows that it grants, for who works what it claims at once: the session of each, the
first line of its transcript, and the event. One statement for all of them (spec: 02 section 2, 03 section 2).

It is part of the claim's transaction and has no meaning without it: the rows are locked and were granted there, and
their `run` names the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from django.db import connection

from boards import event_log
from boards.event_log import Entry
from boards.lines import lines, literal
from boards.models import Session, TranscriptItem
from boards.stored_text import clean_text
from boards.tasks.cleaning import report_line
from boards.tasks.types import Claimed, Start


def leave(claimed: Sequence[Claimed], starts: Sequence[Start], entries: Sequence[Entry]) -> None:
    """Store the start of each granted row and its event; the three stand in the same order."""
    said = cache(report_line)  # the first attempts of a batch all begin with the same words
    values = [
        (clean_text(start.who), clean_text(f"{start.who}: {one.task.label}"), said(start.words), *event)
        for one, start, event in zip(claimed, starts, event_log.rows_of(entries), strict=True)
    ]
    source, params = lines(values, _COLUMNS)
    keys = literal([one.task.pk for one in claimed])
    with connection.cursor() as cursor:
        cursor.execute(_LEAVE.format(source), [*params, keys, Session.Kind.TASK_RUN, TranscriptItem.Kind.STATUS])
    event_log.announce(entries)


_COLUMNS: Final = {"who": "text", "label": "text", "words": "text"} | event_log.COLUMNS
# A child of its filer's session for each task that is worked for the first time; the others have theirs.
_LEAVE: Final = f"""
    with given as (select * from {{}}), begun as (
        select g.*, t.filer_id, (t.run->>'session_id')::uuid as session
          from given g join boards_task t on t.pk = g.task where t.pk = any(%s::bigint[])
    ), sessions as (
        insert into boards_session (id, space_id, kind, parent_id, label)
        select session, space, %s, filer_id, label from begun on conflict do nothing
    ), said as (
        insert into boards_transcriptitem (session_id, task_id, attempt, kind, who, text)
        select session, task, attempt, %s, who, words from begun order by place
    ) {event_log.INSERT.format("given")}"""

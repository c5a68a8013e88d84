"""Writes the event log: one row for each recorded write, in its transaction, and the change notice after it.

Spec: 07 section 1.

Nothing here edits or deletes an event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from boards import live_notices
from boards.actors import Chain, Hop
from boards.lines import lines
from boards.stored_text import clean_json_text


@dataclass(slots=True)  # not frozen: a batch makes hundreds, and that would cost three times as much
class Entry:
    """What one event says; ids only, the words are made by whoever shows it."""

    kind: str
    chain: Chain
    board_id: int | None = None
    task_key: int | None = None
    run_id: int | None = None
    cause: str = ""
    from_status: str = ""
    to_status: str = ""
    attempt: int = 0
    data: dict[str, Any] = field(default_factory=dict)


def record(*entries: Entry) -> None:
    """Store the events in this transaction and announce them once it commits."""
    record_all(entries)


def record_all(entries: Iterable[Entry]) -> None:
    # Inserts into an append-only table wait for nobody, so they have no place to keep in the lock order.
    told = list(entries)
    if not told:
        return
    source, params = lines(rows_of(told), COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(INSERT.format(source), params)
    announce(told)


def announce(entries: Iterable[Entry]) -> None:
    """Change notices of what a statement of the caller's own has stored."""
    live_notices.changed_all((entry.board_id, entry.task_key, entry.run_id) for entry in entries)


def rows_of(entries: Iterable[Entry]) -> list[tuple[Any, ...]]:
    """What `INSERT` stores of the entries, by `COLUMNS`."""
    chains: dict[tuple[Hop, ...], str] = {}  # the entries of a batch mostly name the same few
    return [_values(entry, chains) for entry in entries]


# The events of tasks that the same statement inserts: `{}` names its rows. Params: `filed_params`; whoever runs it
# announces them.
FILED = """
    insert into boards_event
           (space_id, board_id, task_id, run_id, kind, chain, cause, from_status, to_status, attempt, data)
    select %s, f.board_id, f.pk, %s, 'task.filed', %s::jsonb, '', '', f.status, 0,
           case when f.follow_up_of_id is null then '{{}}'::jsonb
                else jsonb_build_object('follow_up_of', (select r.id from boards_task r where r.pk = f.follow_up_of_id))
           end
      from {} f order by f.pk"""


def filed_params(chain: Chain, run_id: int | None) -> list[Any]:
    return [chain.space_id, run_id, clean_json_text(chain.wire())]


COLUMNS = {
    "space": "bigint",
    "board": "bigint",
    "task": "bigint",
    "run": "bigint",
    "kind": "text",
    "chain": "jsonb",
    "cause": "text",
    "was": "text",
    "became": "text",
    "attempt": "int",
    "data": "jsonb",
}
INSERT = """
    insert into boards_event
           (space_id, board_id, task_id, run_id, kind, chain, cause, from_status, to_status, attempt, data)
    select space, board, task, run, kind, chain, cause, was, became, attempt, data from {} order by place"""


def _values(entry: Entry, chains: dict[tuple[Hop, ...], str]) -> tuple[Any, ...]:
    hops = entry.chain.hops
    chain = chains.get(hops)
    if chain is None:
        chain = chains[hops] = clean_json_text(entry.chain.wire())
    return (
        entry.chain.space_id,
        entry.board_id,
        entry.task_key,
        entry.run_id,
        entry.kind,
        chain,
        entry.cause,
        str(entry.from_status),
        str(entry.to_status),
        entry.attempt,
        clean_json_text(entry.data) if entry.data else "{}",
    )

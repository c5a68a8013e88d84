"""The claim of ordinary rows in one call of a database function, whose plans the server keeps (spec: 10, `bench
pickup`): first attempts of tasks that are ready, for who works what it claims at once.

It decides nothing that `claims` does not: where anything rarer is there (a run to resume, a lapsed lease, a cap, an
order by priority, a second attempt) the function writes nothing, and the long way sees to it. Its text is in the
migration that made it; a change of it is a new function beside the old one, which processes of the version before
still call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import connection

from boards import live_notices
from boards.actors import agent
from boards.lines import literal
from boards.locks import Rank, engine_statement, taking
from boards.models import Task
from boards.stored_text import clean_json_text, clean_text
from boards.tasks import plain_rows
from boards.tasks.cleaning import report_line
from boards.tasks.types import Wanted


@dataclass(frozen=True, slots=True)
class Taken:
    """One row that was handed out and its attempt. `bare`: it has neither dependencies nor questions."""

    task: Task
    attempt_key: int
    bare: bool


@engine_statement
def claim(
    wanted: Sequence[Wanted],
    limit: int,
    lease_ms: int | None,
    claimed_by: dict[str, Any],
    first_words: str,
    without: frozenset[str],
) -> list[Taken] | None:
    """What `claims.claim` would hand out, linked to runs of their own; None where that has to look itself.

    `without`: attributes of the rows that are left to whoever asks for them; no fewer than the function leaves out.
    """
    params = _params(wanted, limit, lease_ms, claimed_by, first_words)
    if params is None:
        return None
    taking(Rank.TASK)
    with connection.cursor() as cursor:
        plain_rows.quick_times(cursor)
        cursor.execute(_statement(without), params)
        found = cursor.fetchall()
    if found and found[0][0] is None:
        return None
    known = {want.board_id: want.board for want in wanted if want.board is not None}  # as they stand now
    taken = []
    for attempt_key, _, bare, *row in found:
        task = plain_rows.read(Task, row, without)
        plain_rows.set_board(task, known[task.board_id])
        taken.append(Taken(task, attempt_key, bare))
    live_notices.changed_all((one.task.board_id, one.task.pk, row[1]) for one, row in zip(taken, found, strict=True))
    return taken


@cache
def _statement(without: frozenset[str]) -> str:
    names = [f'"o_{field.column}"' for field in Task._meta.concrete_fields if field.attname not in without]
    return f"""
        select o_attempt_key, o_flow_run, o_bare, {", ".join(names)}
          from boards_claim_2(%s::bigint[], %s::text[], %s::int[], %s::int[], %s::text[], %s::jsonb[],
                              %s, %s, %s::jsonb, %s, %s::bigint[], %s::text[])"""


def _params(
    wanted: Sequence[Wanted], limit: int, lease_ms: int | None, claimed_by: dict[str, Any], first_words: str
) -> list[Any] | None:
    """What the function is called with; None where a board is not known."""
    boards = {want.board_id: want.board for want in wanted if want.board is not None}
    places = [(want, name, min(slots, limit)) for want in wanted for name, slots in want.slots.items() if slots > 0]
    if len(boards) < len(wanted):
        return None
    who = [clean_text(name or boards[want.board_id].default_worker or "drain") for want, name, _ in places]
    spaces = [boards[want.board_id].space_id for want, _, _ in places]
    chains = [clean_json_text(agent(*acting).wire()) for acting in zip(who, spaces, strict=True)]
    return [
        literal([want.board_id for want, _, _ in places]),
        literal([name for _, name, _ in places]),
        literal([slots for _, _, slots in places]),
        literal([limit if want.limit is None else want.limit for want, _, _ in places]),
        literal(who),
        literal(chains),
        limit,
        lease_ms,
        clean_json_text(claimed_by),
        report_line(first_words),
        literal(list(boards)),
        literal([board.version for board in boards.values()]),
    ]

"""Times the two pages that grow with what stands behind them: a board, and *Needs you* (spec: 10).

Each is asked for as a browser asks, through every layer but the network, by an operator who is signed in. The rows are
made by statements of their own, because the verbs would take longer than what is measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.db import connection
from django.test import Client

from boards.bench.desk import Desk
from boards.models import Board, Debt, Hold, Member, RosterEntry, Task

ROUNDS: Final = 20
BOARDS: Final = 50
Told = tuple[dict[str, Any], list[tuple[str, str]]]

# In this mix a lane for each status; `share` of every hundred tasks.
_LANES: Final = (
    ("pending", 20, "null", "null"),
    ("held", 5, "null", "null"),
    ("in_progress", 15, "now() + interval '1 hour'", "null"),
    ("needs_check", 10, "null", "null"),
    ("completed", 40, "null", "now()"),
    ("errored", 10, "null", "now()"),
)
_TASKS: Final = """
    insert into boards_task
           (board_id, partition, id, incarnation_id, revision, goal, goal_hash, title, context, input, labels,
            metadata, priority, assignee, checker, filer_id, filed_by, stage, status, attempts, failures,
            abandonments, status_note, kept_open_by, unmet_deps, open_holds, grant_no, output_is_checkpoint, error,
            feedback, steers, cancelled_via, write_log, write_log_truncated, lease_until, completed_at)
    select (array[{boards}])[1 + n %% {count}], '', '{name}' || n, gen_random_uuid(), 3, 'Goal of task ' || n,
           md5('{name}' || n), 'Task ' || n, '', '{{}}', '{{}}', '{{}}', n %% 3, '{assignee}', '{checker}',
           %(session)s, 'bench', '', '{status}', 1, 1, 0, 'Half way through part ' || n, '', 0, {holds}, 1, false,
           {error}, '', '[]', '', '[]', false, {lease}, {completed}
      from generate_series(1, %(n)s) as n
"""


def board(desk: Desk, n: int) -> Told:
    """A board of `n` tasks in six lanes: its first page as it opens."""
    for status, share, lease, completed in _LANES:
        _fill([desk.board], desk, max(1, n * share // 100), status, lease=lease, completed=completed)
    _settle()
    return _measured(desk, f"/b/{desk.board.slug}/", f"A board of {n:,} tasks", first_byte=True)


def needs_you(desk: Desk, n: int) -> Told:
    """`n` rows of every frequent kind over fifty boards, all of the operator's own."""
    space, user_id = desk.board.space, desk.chain.user_id
    boards = [Board.objects.create(space=space, slug=f"bench-{k}", name=f"Bench {k}") for k in range(BOARDS)]
    RosterEntry.objects.bulk_create(
        RosterEntry(board=each, name="operator", kind="person", user_id=user_id) for each in boards
    )
    part = max(1, n // 10)
    asked = _fill(boards, desk, max(1, n - 6 * part), "in_progress", name="h", holds=1)
    _fill(boards, desk, 3 * part, "errored", name="e", completed="now()")
    _fill(boards, desk, part, "needs_check", name="c", checker="person")
    _fill(boards, desk, part, "pending", name="p", assignee="operator")
    owing = _fill(boards, desk, part, "completed", name="d", completed="now()")
    _ask(asked)
    Debt.objects.bulk_create(
        Debt(kind="cascade", unique_key=f"bench:{task.pk}", task=task, state="undeliverable", last_error="It failed.")
        for task in owing
    )
    _settle()
    return _measured(desk, "/needs-you/", f"Needs you with {n:,} rows over {BOARDS} boards")


def _fill(
    boards: list[Board],
    desk: Desk,
    n: int,
    status: str,
    *,
    name: str = "",
    lease: str = "null",
    completed: str = "null",
    assignee: str = "agent",
    checker: str = "none",
    holds: int = 0,
) -> list[Task]:
    prefix = name or status
    error = "'The third page of the list did not answer in time.'" if status == "errored" else "''"
    statement = _TASKS.format(
        boards=", ".join(str(each.pk) for each in boards),
        count=len(boards),
        name=prefix,
        status=status,
        lease=lease,
        completed=completed,
        assignee=assignee,
        checker=checker,
        holds=holds,
        error=error,
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, {"session": desk.chain.session_id, "n": n})
    return list(Task.objects.filter(board__in=boards, public_id__startswith=prefix).only("pk", "board_id"))


def _ask(tasks: list[Task]) -> None:
    """Questions and approvals in turn, as workers ask them."""
    options = [{"value": "a", "label": "The first"}, {"value": "b", "label": "The second"}]
    draft = "Dear all,\n\n" + "it is out, and this is what changed. " * 40
    Hold.objects.bulk_create(
        Hold(
            board_id=task.board_id,
            task=task,
            attempt=1,
            source="suspension",
            kind="approval" if number % 2 else "question",
            dedup_key="bench",
            prompt="Which of the two stays in the notes?",
            title=f"Question {number}",
            options=[] if number % 2 else options,
            draft=draft if number % 2 else None,
            draft_hash="bench" if number % 2 else "",
            asker="agent",
        )
        for number, task in enumerate(tasks)
    )


def _settle() -> None:
    with connection.cursor() as cursor:
        cursor.execute("analyze boards_task, boards_hold, boards_debt")


def _measured(desk: Desk, path: str, what: str, *, first_byte: bool = False) -> Told:
    client = Client(headers={"host": "localhost"})
    client.force_login(Member.objects.select_related("user").get(user=desk.chain.user_id).user)
    first, times, size, queries = [], [], 0, 0
    for number in range(ROUNDS + 2):  # the first two load templates and plans
        with _counted() as counted:
            began = time.perf_counter()
            response = client.get(path, secure=True)
            answered = time.perf_counter()
            body = response.content
            ended = time.perf_counter()
        if response.status_code != 200:
            raise RuntimeError(f"{path} answered {response.status_code}.")
        size, queries = len(body), len(counted)
        if number > 1:
            first.append(1_000 * (answered - began))
            times.append(1_000 * (ended - began))
    half, worst = statistics.median(times), sorted(times)[min(len(times) - 1, int(0.99 * len(times)))]
    numbers: dict[str, Any] = {"ms_p50": round(half, 1), "ms_p99": round(worst, 1), "queries": queries, "bytes": size}
    if first_byte:
        numbers["first_byte_ms_p50"] = round(statistics.median(first), 1)
    return numbers, [
        (what, f"{half:.0f} ms, in the worst of {ROUNDS} {worst:.0f} ms"),
        ("Queries", str(queries)),
        ("HTML", f"{size / 1_000:,.0f} kB"),
    ]


@contextmanager
def _counted() -> Iterator[list[str]]:
    """The statements of a request."""
    seen: list[str] = []

    def count(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(count):
        yield seen

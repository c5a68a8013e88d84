"""`get_task(wait=True)`: parks the calling turn until a task that its session filed has ended (spec: 06 section 2.5).

A wait reads; it never cancels its task. One ending is delivered once: a wait takes the notice that is owed and clears
it. While a turn is parked its row says so, without raising `revision`, like a renewal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import connection

from boards import errors
from boards.actors import Chain
from boards.models import Attempt, Board, Task
from boards.tasks.current import current_claim
from boards.tasks.notices import release
from boards.tasks.reading import get_task as read_task
from boards.tasks.reading import with_current
from boards.tasks.telling import clear_notice, take_owed_notice
from boards.tasks.types import Ticket

SHORTEST_MS: Final = 30_000
LONGEST_MS: Final = 3_600_000
PARKED_AFTER_S: Final = 2.0  # then what the turn held back goes out
PAUSES_S: Final = (0.02, 0.5)

_pending: set[tuple[int, int]] = set()  # (task, grant) of the turns of this process that wait
_lock = threading.Lock()


def get_task(
    chain: Chain,
    board: Board,
    public_id: str,
    *,
    partition: str | None = None,
    wait: bool = False,
    deadline_ms: int = 300_000,
) -> Task:
    """The task of that id on the board, with its `current`; TaskNotFound for anything that is not there for the caller.

    `partition`: the key that `partition_of` or `find_task_partitions` answered; None is the caller's own, and raises
    NoPartition for one who has none.
    `wait`: not before it has ended, or `deadline_ms` (30,000 to 3,600,000) is over: `wait_timed_out`. From a turn only
    a task that its own session filed can be waited for. Raises WaitDeadlineOutOfRange, WaitAlreadyPending,
    WaitUnavailable, WaitTimedOut.
    """
    task = read_task(chain, board, public_id, partition=partition)
    if not wait:
        return task
    if isinstance(deadline_ms, bool) or not SHORTEST_MS <= deadline_ms <= LONGEST_MS:
        raise errors.WaitDeadlineOutOfRange
    claim = current_claim()
    if claim is not None and not task.is_ended:
        _refuse(claim, task)
        with _parked(claim, task):
            task = _until_ended(task, deadline_ms)
    else:
        task = _until_ended(task, deadline_ms)
    taken = take_owed_notice(task)
    if taken is not None:
        clear_notice(taken)
    return task


def _refuse(claim: Ticket, task: Task) -> None:
    session = Attempt.objects.filter(pk=claim.attempt_key).values_list("session_id", flat=True).first()
    if task.filed_by_task_id != claim.task_key and (session is None or task.filer_id != session):
        raise errors.WaitUnavailable("Only the session that filed a task can wait for it.")
    if task.pk == claim.task_key or (task.follow_up_of_id is not None and task.follow_up_of_id == claim.task_key):
        raise errors.WaitUnavailable("It would run in this session.")


def _until_ended(task: Task, deadline_ms: int) -> Task:
    deadline = time.monotonic() + deadline_ms / 1000
    pause, longest = PAUSES_S
    while True:
        row = Task.objects.select_related("board").filter(pk=task.pk).first()
        if row is None:
            raise errors.TaskNotFound
        if row.is_ended:
            return with_current([row])[0]
        left = deadline - time.monotonic()
        if left <= 0:
            raise errors.WaitTimedOut
        time.sleep(min(pause, left))
        pause = min(2 * pause, longest)


@contextmanager
def _parked(claim: Ticket, task: Task) -> Iterator[None]:
    """The turn holds no slot of its roster entry meanwhile, and holds back only the notice of what it waits for."""
    name = (claim.task_key, claim.grant_no)
    with _lock:
        if name in _pending:
            raise errors.WaitAlreadyPending
        _pending.add(name)
    try:
        _mark(claim, task.pk)
        release([claim.task_key], after_s=PARKED_AFTER_S)
        yield
    finally:
        with _lock:
            _pending.discard(name)
        _mark(claim, None)


def _mark(claim: Ticket, on: int | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """update boards_task
                  set claimed_by = case when %s::bigint is null then claimed_by - 'parked'
                      else claimed_by || jsonb_build_object('parked',
                           jsonb_build_object('on', %s::bigint, 'at', statement_timestamp())) end
                where pk = %s and grant_no = %s and status = 'in_progress' and claimed_by is not null""",
            [on, on, claim.task_key, claim.grant_no],
        )

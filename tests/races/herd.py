"""Many processes that do the same at once: `python -m tests.races.herd JOB COUNT PLACE…`, one line of JSON each.

It loads the product once and forks, so that twenty processes cost one start. Each opens a connection of its own after
the fork, waits for the others at a gate, and answers by its line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import django

if __name__ == "__main__":
    django.setup()

from django.db import connection

from boards import actors, tasks
from boards.models import Attempt, Board, Task
from boards.states import Verb
from boards.tasks import Wanted
from tests.crash.processes import ROOT, database_url


def herd(job: str, count: int, *place: int) -> list[Any]:
    """Start `count` processes that do `job` at once; what each of them answered."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.races.herd", job, str(count), *map(str, place)],
        env={**os.environ, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "orchestra.settings"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def claim_until_empty(number: int, board: int) -> list[int]:
    """Take three at a time until there is nothing; the keys taken."""
    wanted, mine = [Wanted(board, {"writer": 3})], []
    while got := tasks.claim(wanted, limit=3, claimed_by={"drain": f"p{number}", "host": "here"}):
        mine += [one.task.pk for one in got]
    return mine


def settle_a_share(number: int, board: int, count: int) -> int:
    """Complete each `count`th of the tasks at work, in batches of ten; how many landed."""
    row = Board.objects.get(pk=board)
    worker = actors.agent("writer", row.space_id)
    attempts = dict(Attempt.objects.filter(task__board=board, ended_at=None).values_list("task", "pk"))
    mine = list(Task.objects.filter(pk__in=attempts).order_by("pk"))[number::count]
    landed = 0
    for first in range(0, len(mine), 10):
        tickets = [tasks.mint(task, attempts[task.pk]) for task in mine[first : first + 10]]
        settlements = [
            tasks.Settlement(Verb.COMPLETE, worker, ticket.task_key, tasks.Options(claim=ticket)) for ticket in tickets
        ]
        landed += sum(outcome.landed for outcome in tasks.settle_many(settlements))
    return landed


JOBS: dict[str, Callable[..., Any]] = {"claim_until_empty": claim_until_empty, "settle_a_share": settle_a_share}


class Gate:
    """Lets all children go at once: each says that it is there, and waits for the parent to close its end."""

    def __init__(self) -> None:
        self._there, self._says = os.pipe()
        self._shut, self._opens = os.pipe()

    def wait(self) -> None:
        """In a child."""
        os.close(self._opens)
        os.write(self._says, b".")
        os.read(self._shut, 1)

    def open_for(self, count: int) -> None:
        """In the parent; a child that ends before it is there is not waited for."""
        os.close(self._says)
        for _ in range(count):
            os.read(self._there, 1)
        os.close(self._opens)


def _main(job: str, count: int, place: Sequence[int]) -> int:
    gate = Gate()
    children = [_fork(gate, job, number, place) for number in range(count)]
    gate.open_for(count)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


def _fork(gate: Gate, job: str, number: int, place: Sequence[int]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        connection.ensure_connection()  # its own: the parent has none
        gate.wait()
        answer = json.dumps(JOBS[job](number, *place))
        os.write(1, f"{answer}\n".encode())
        code = 0
    except BaseException as error:  # the parent sees the code; the reason goes to standard error
        os.write(2, f"{number}: {error!r}\n".encode())
    finally:
        os._exit(code)


if __name__ == "__main__":
    name, size, *where = sys.argv[1:]
    sys.exit(_main(name, int(size), [int(each) for each in where]))

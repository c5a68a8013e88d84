"""Withdraws what is late, stops what that owes, and is killed at a point: `python -m tests.crash.late KIND POINT`.

KIND: `withdraw`, or a debt of its clean-up. POINT: `before` its work, `inside`, when the work is done and nothing of
it is committed, or `after` the commit, when nothing that follows is done. The process never gets past that point.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import django

django.setup()

from django.db import transaction  # noqa: E402 (models need the line above)

from boards import flows, tasks  # noqa: E402
from boards.debts import kinds, paying  # noqa: E402
from boards.models import Debt  # noqa: E402


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(work: Callable[..., Any], point: str) -> Callable[..., Any]:
    """The work, which ends the process at the point."""

    def worked(*words: Any, **facts: Any) -> Any:
        if point == "before":
            die()
        if point == "after":
            transaction.on_commit(die)
        done = work(*words, **facts)
        if point == "inside":
            die()
        return done

    return worked


if __name__ == "__main__":
    kind, point = sys.argv[1:]
    if kind == "withdraw":
        tasks.withdraw_many = dying(tasks.withdraw_many, point)
    else:
        kinds.PAYERS[kind] = dying(kinds.PAYERS[kind], point)
    flows.withdraw_due()
    for debt in Debt.objects.filter(kind="session_stop"):
        paying.pay(debt.pk)  # as the drain does, which has seen that its worker is gone

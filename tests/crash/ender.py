"""Ends one task and is killed at a marked point: `python -m tests.crash.ender VERB TASK_KEY KIND POINT`.

POINT: `before`, when the ending is committed and nothing is paid; `inside`, when the payer of KIND has done its work
and nothing of it is committed. The process never gets past that point.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import django

django.setup()

from django.db import transaction  # noqa: E402 (models need the line above)

from boards import actors, tasks  # noqa: E402
from boards.debts import kinds, owing  # noqa: E402
from boards.models import Attempt, Debt, Task  # noqa: E402


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before(kind: str) -> None:
    """Be killed after the commit that leaves a debt of this kind, before it is paid."""
    owe = owing.owe

    def owe_and_die(name: str, *words: Any, **facts: Any) -> Debt:
        if name == kind:
            transaction.on_commit(die)
        return owe(name, *words, **facts)

    owing.owe = owe_and_die


def die_inside(kind: str) -> None:
    """Be killed after the payer's work, before its commit."""
    pay = kinds.PAYERS[kind]

    def pay_and_die(debt: Debt) -> bool:
        pay(debt)
        die()
        return True

    kinds.PAYERS[kind] = pay_and_die


def end(verb: str, key: int) -> None:
    task = Task.objects.select_related("board").get(pk=key)
    flows = actors.service("flows", task.board.space_id)
    match verb:
        case "cancel":
            tasks.cancel(flows, task, "Not wanted", cancel_filed=True)
        case "withdraw":
            tasks.withdraw(flows, task)
        case "complete":
            ticket = tasks.mint(task, Attempt.objects.get(task=task, ended_at=None).pk)
            tasks.complete(actors.agent(task.assignee, task.board.space_id), task, {"text": "Words"}, claim=ticket)


if __name__ == "__main__":
    verb, key, kind, point = sys.argv[1:]
    {"before": die_before, "inside": die_inside}[point](kind)
    end(verb, int(key))

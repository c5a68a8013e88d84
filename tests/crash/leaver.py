"""Gives up the place of a run and is killed at a marked point: `python -m tests.crash.leaver VERB RUN_KEY POINT`.

POINT: `before`, when the leave is committed and its promotion is not paid; `inside`, when the next run is let in and
nothing of that is committed; `between`, when one was let in for good and the next one was not. The process never gets
past that point.
"""

from __future__ import annotations

import sys
from typing import Final

import django

django.setup()

from boards import actors, flows  # noqa: E402 (models need the line above)
from boards.debts import kinds  # noqa: E402
from boards.models import Debt, FlowRun, Member  # noqa: E402
from tests.crash.ender import die, die_before, die_inside  # noqa: E402

PROMOTE: Final = "run_promote"


def die_between() -> None:
    """Be killed when the payer is asked for the second time: its first part is committed by then."""
    pay = kinds.PAYERS[PROMOTE]
    calls: list[int] = []

    def pay_or_die(debt: Debt) -> bool:
        calls.append(debt.pk)
        if len(calls) > 1:
            die()
        return pay(debt)

    kinds.PAYERS[PROMOTE] = pay_or_die


def leave(verb: str, key: int) -> None:
    run = FlowRun.objects.select_related("flow__space").get(pk=key)
    anna = actors.person(Member.objects.get(space=run.flow.space, user__username="anna"))
    match verb:
        case "move":
            flows.move(anna, run, "review")
        case "archive":
            flows.archive(anna, run)
        case "cancel":
            flows.cancel_run(anna, run)


if __name__ == "__main__":
    verb, key, point = sys.argv[1:]
    match point:
        case "before":
            die_before(PROMOTE)
        case "inside":
            die_inside(PROMOTE)
        case "between":
            die_between()
    leave(verb, int(key))

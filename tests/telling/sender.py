"""A process that tells, and is killed at a marked point: `python -m tests.telling.sender POINT`.

POINT: `read`, when the log was read and nothing of it is committed; `owed`, when the deliveries are committed; `taken`,
when the debt is taken and nothing is sent; `sent`, when the receiver has the message and the debt is not settled. The
process never gets past that point.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import django

django.setup()

from django.db import transaction  # noqa: E402 (models need the line above)

from boards import telling  # noqa: E402
from boards.debts import paying  # noqa: E402
from boards.models import Debt  # noqa: E402
from boards.telling import sending  # noqa: E402


def die(*words: Any, **more: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    match sys.argv[1]:
        case "read":
            with transaction.atomic():
                telling.collect()
                die()
        case "taken":
            sending._send = die
        case "sent":
            sending._settle = die
    telling.collect()
    if sys.argv[1] == "owed":
        die()
    Debt.objects.filter(kind="deliver").update(due_at="2001-01-01T00:00:00Z")
    paying.pay_due()

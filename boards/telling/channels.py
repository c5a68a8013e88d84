"""How sending ends where it does not succeed, for every channel (spec: 04 section 4)."""

from __future__ import annotations

from boards.debts.kinds import Undeliverable


class Refused(Undeliverable):
    """The receiver will not take it, however often it is tried."""


class NotNow(Exception):
    """It may be taken later. `after`: the seconds that the receiver asked for."""

    def __init__(self, sentence: str, after: float | None = None) -> None:
        super().__init__(sentence)
        self.after = after

"""Kinds of debts and who pays them (spec: 07 section 2). Engines register their payers here."""

from __future__ import annotations

from collections.abc import Callable

from boards.models import Debt

# A payer runs inside one engine transaction and may lock what stands left of debts. It answers True when the debt is
# settled, False when it did a part and wants to be called again in a new transaction.
Payer = Callable[[Debt], bool]

PAYERS: dict[str, Payer] = {}

# Told in a transaction of its own, once a debt of the kind has failed for good.
GIVEN_UP: dict[str, Callable[[Debt], None]] = {}


class Undeliverable(Exception):
    """Raised by a payer: no later try can succeed, so the debt has failed for good now."""


def pays(kind: str) -> Callable[[Payer], Payer]:
    """Register the payer of a kind; two payers of one kind are a programming error."""

    def register(payer: Payer) -> Payer:
        if kind in PAYERS and PAYERS[kind] is not payer:
            raise AssertionError(f"Two payers for debts of kind {kind}.")
        PAYERS[kind] = payer
        return payer

    return register


def given_up(kind: str) -> Callable[[Callable[[Debt], None]], Callable[[Debt], None]]:
    """Register what is done once a debt of a kind has failed for good."""

    def register(told: Callable[[Debt], None]) -> Callable[[Debt], None]:
        GIVEN_UP[kind] = told
        return told

    return register

"""Kinds of debts and who pays them (spec: 07 section 2). Engines register their payers here."""

from __future__ import annotations

from collections.abc import Callable

from boards.models import Debt

# A payer runs inside one engine transaction and may lock what stands left of debts. It answers True when the debt is
# settled, False when it did a part and wants to be called again in a new transaction.
Payer = Callable[[Debt], bool]

PAYERS: dict[str, Payer] = {}


def pays(kind: str) -> Callable[[Payer], Payer]:
    """Register the payer of a kind; two payers of one kind are a programming error."""

    def register(payer: Payer) -> Payer:
        if kind in PAYERS and PAYERS[kind] is not payer:
            raise AssertionError(f"Two payers for debts of kind {kind}.")
        PAYERS[kind] = payer
        return payer

    return register

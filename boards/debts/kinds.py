"""Kinds of debts and who pays them (spec: 07 section 2). Engines register their payers here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum

from boards.models import Debt

# A payer runs inside one engine transaction and may lock what stands left of debts. It answers True when the debt is
# settled, False when it did a part and wants to be called again in a new transaction.
Payer = Callable[[Debt], bool]

PAYERS: dict[str, Payer] = {}

# Payers of many debts of a kind in one engine transaction, for kinds of which a sweeper finds hundreds: they answer the
# ids of those that are settled. Where these are not all, nothing stands, and each is paid by itself.
ManyPayer = Callable[[Sequence[Debt]], Collection[int]]
MANY: dict[str, ManyPayer] = {}

# Payers that run outside of a transaction and settle the debt themselves: `deliver(debt id)` answers what came of it.
OUTSIDE: dict[str, Callable[[int], Paid]] = {}

# Told in a transaction of its own, once a debt of the kind has failed for good.
GIVEN_UP: dict[str, Callable[[Debt], None]] = {}

# Kinds that let go of what is chained to them once they have failed for good: that need not wait any longer.
LET_GO: set[str] = set()


class Paid(StrEnum):
    """What came of paying a debt."""

    PAID = "paid"
    GONE = "gone"
    FAILED = "failed"
    NOT_DUE = "not_due"


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


def pays_many(kind: str) -> Callable[[ManyPayer], ManyPayer]:
    """Register who pays many debts of a kind at once; there is a payer of single ones too."""

    def register(payer: ManyPayer) -> ManyPayer:
        MANY[kind] = payer
        return payer

    return register


def pays_outside(kind: str) -> Callable[[Callable[[int], Paid]], Callable[[int], Paid]]:
    """Register the payer of a kind that runs code of others, which no transaction should wait for."""

    def register(payer: Callable[[int], Paid]) -> Callable[[int], Paid]:
        OUTSIDE[kind] = payer
        return payer

    return register


def given_up(kind: str, *, lets_go: bool = False) -> Callable[[Callable[[Debt], None]], Callable[[Debt], None]]:
    """Register what is done once a debt of a kind has failed for good. `lets_go`: what is chained to it falls due then,
    in the same transaction.
    """

    def register(told: Callable[[Debt], None]) -> Callable[[Debt], None]:
        GIVEN_UP[kind] = told
        LET_GO.update({kind} if lets_go else ())
        return told

    return register

"""What the fan-out knows of an open page."""

from __future__ import annotations

from typing import Protocol

from boards.live.admission import Request
from boards.queries.needs_you import Counts
from boards.queries.subscriptions import Subscription

Person = tuple[int, int]  # user id, space id


class Page(Protocol):
    """A page's socket. `told_count`: the count of *Needs you* that it was told last, None before the first."""

    subscription: Subscription
    request: Request
    told_count: Counts | None

    async def tell(self, text: str) -> None: ...

    async def end(self, code: int) -> None: ...


Pages = tuple[Page, ...]


def person(page: Page) -> Person:
    """Whose count of *Needs you* the page shows."""
    return page.subscription.user_id, page.subscription.space_id

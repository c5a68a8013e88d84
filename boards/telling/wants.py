"""Whether a member wants to hear of a row, and on which channels (spec: 04 section 4). Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from boards.models import Channel, Preference
from boards.queries.waiting_row import GROUPS, Row

# What keeps work waiting, and what a flow's author wants people told. What else only wants to be read shows as a dot
# beside the count, and nobody is woken for it.
KINDS: Final = tuple(group for group in GROUPS if group.value not in {"late", "silent", "notice"})
_TOLD: Final = frozenset(group.value for group in KINDS)


def channels_of(told: Preference) -> dict[str, datetime]:
    """The channels that are on, with the moment from which they tell."""
    since = {Channel.EMAIL: told.email_since, Channel.WEBHOOK: told.webhook_since}
    return {channel.value: moment for channel, moment in since.items() if moment is not None}


def wants(told: Preference, muted_boards: Collection[int], row: Row) -> bool:
    """Whether rows of this kind, on this board, are to be told."""
    return row.group in _TOLD and row.group not in told.muted_kinds and row.board_id not in muted_boards

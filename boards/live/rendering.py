"""What goes over a socket, as text: a head of ids in a comment, then ready HTML (spec: 08 section 1.2).

A message is `<!--{head}-->` and out-of-band pieces, or the head's JSON alone. Nothing in it depends on the reader, so
it is made once for all pages with the same lanes; each card is made once per process, revision and language
(`render_card` keeps them).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from django.template.loader import render_to_string
from django.utils import translation
from django.utils.html import format_html

from boards.models import Board, Task
from boards.queries.board import cards
from boards.queries.cards import task_dom_id
from boards.queries.lanes import lane_counts
from boards.queries.subscriptions import Lanes
from boards.templatetags.orchestra import render_card

BEAT: Final = '{"beat":1}'


def message(html: str = "", **head: Any) -> str:
    """`head` without what is empty. Keys: cursor, refresh, needs, reads, changed {tasks, runs, needs, home, process}.

    Task ids and cursors hold no `>`, so nothing in the head can end the comment.
    """
    told = json.dumps({name: value for name, value in head.items() if value is not None and value != {}})
    return f"<!--{told}-->{html}" if html else told


def lanes_html(lanes: Lanes, keys: Iterable[int]) -> str:
    """The cards of these tasks that the lanes show, marks for those that they do not, and the lanes' heads."""
    wanted = list(keys)
    with translation.override(lanes.language):
        return "".join([*_cards(lanes, wanted), counts_html(lanes)])


def counts_html(lanes: Lanes) -> str:
    """Every lane's count and age, and the sum."""
    board = Board.objects.filter(pk=lanes.board_id).first()
    if board is None:
        return ""
    counts = lane_counts(board, lanes.filters)
    with translation.override(lanes.language):
        return "".join(line.strip() for line in render_to_string("board/_counts.html", {"counts": counts}).split("\n"))


def _cards(lanes: Lanes, keys: list[int]) -> Iterable[str]:
    if not keys:
        return
    update = cards(lanes.board_id, keys, lanes.filters)
    for view in update.cards:
        yield render_card(view, oob=True)
    if update.gone:
        left = Task.objects.filter(pk__in=update.gone, partition=lanes.filters.partition).values_list(
            "public_id", "partition"
        )
        for public_id, partition in left:
            yield format_html('<i id="{}" hx-swap-oob="delete"></i>', task_dom_id(lanes.board_id, public_id, partition))

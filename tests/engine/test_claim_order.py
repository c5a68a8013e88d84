"""In which order a board hands out what is ready; no order passes the dependency rule (spec: 02, 2.4)."""

from __future__ import annotations

import pytest

from boards import tasks
from boards.actors import Chain
from boards.models import Board
from boards.tasks import Wanted
from tests import cast


def order(board: Board) -> list[str]:
    wanted = [Wanted(board.pk, {cast.WRITER: 9})]
    return [one.task.public_id for one in tasks.claim(wanted, limit=9, claimed_by=cast.HERE)]


@pytest.mark.parametrize(
    ("claim_order", "handed_out"),
    [
        (Board.ClaimOrder.TOPOLOGICAL, ["low", "high", "middle", "high-too"]),
        (Board.ClaimOrder.FIFO, ["low", "high", "middle", "high-too"]),
        (Board.ClaimOrder.PRIORITY, ["high", "high-too", "middle", "low"]),
    ],
)
def test_the_oldest_first_or_the_highest_and_then_the_oldest(
    board: Board, anna: Chain, claim_order: str, handed_out: list[str]
) -> None:
    Board.objects.filter(pk=board.pk).update(claim_order=claim_order)
    for name, priority in (("low", -1), ("high", 5), ("middle", 0), ("high-too", 5)):
        cast.filed(board, anna, id=name, priority=priority)
    cast.filed(board, anna, id="waits", priority=99, deps=["low"])
    assert order(board) == handed_out


def test_of_equal_age_the_id_decides_as_in_a_batch(board: Board, anna: Chain) -> None:
    made = tasks.file_tasks(anna, board, [tasks.Filing(f"Task {n}", assignee=cast.WRITER) for n in range(5)])
    assert len({task.created_at for task in made}) == 1
    assert order(board) == [task.public_id for task in made]

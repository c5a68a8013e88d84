"""Boards, tasks, flows and runs as their addresses name them: what a caller may not see is not there.

A key sees its own boards and, on a partitioned one, its own partition; so does a person here.
"""

from __future__ import annotations

from django.db.models import Q, QuerySet

from boards import policy, tasks
from boards.actors import Chain
from boards.errors import BoardNotFound, InvalidInput, NotFound, TaskNotFound
from boards.models import Board, Flow, FlowRun, Task

_LONGEST_NUMBER = 18


def boards_of(chain: Chain) -> QuerySet[Board]:
    policy.require(chain, "boards.read", chain.space_id)
    key = chain.key
    seen = Q() if key is None or key.boards is None else Q(pk__in=key.boards)
    return Board.objects.filter(seen, space=chain.space_id).order_by("name", "pk")


def board(chain: Chain, name: str) -> Board:
    """By its slug, else by its number. Raises BoardNotFound."""
    seen = Board.objects.filter(space=chain.space_id)
    found = seen.filter(slug=name).first()
    if found is None and name.isascii() and name.isdigit() and len(name) <= _LONGEST_NUMBER:
        found = seen.filter(pk=int(name)).first()
    if found is None or not chain.sees_board(found.pk):
        raise BoardNotFound
    return found


def only_board(chain: Chain) -> Board:
    """The one board that the caller sees. Raises InvalidInput where it has to be named."""
    key = chain.key
    seen = Q() if key is None or key.boards is None else Q(pk__in=key.boards)
    found = list(Board.objects.filter(seen, space=chain.space_id)[:2])
    if len(found) != 1:
        raise InvalidInput("Say which board: this caller sees several, or none.", field="board")
    return found[0]


def task(chain: Chain, board_name: str, task_id: str) -> Task:
    """The task with its `board`, in one of the caller's own partitions. Raises BoardNotFound, TaskNotFound."""
    place = board(chain, board_name)
    partitions = tasks.find_task_partitions(chain, place, task_id)
    if not partitions:
        raise TaskNotFound
    own = tasks.partition_of(chain, place)  # the one that a filing goes to comes first
    return tasks.get_task(chain, place, task_id, partition=own if own in partitions else partitions[0])


def flow(chain: Chain, key: str) -> Flow:
    found = Flow.objects.filter(space=chain.space_id, key=key).select_related("board").first()
    if found is None or not chain.sees_board(found.board_id):
        raise NotFound("There is no such flow.")
    return found


def run(chain: Chain, key: str, number: str) -> FlowRun:
    if not (number.isascii() and number.isdigit()) or len(number) > _LONGEST_NUMBER:
        raise NotFound("There is no such run.")
    rows = FlowRun.objects.select_related("flow__board", "version", "session", "current_visit__task", "started_by")
    found = rows.filter(flow=flow(chain, key), number=int(number)).first()
    if found is None:
        raise NotFound("There is no such run.")
    return found
